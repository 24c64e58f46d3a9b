// Package dbdir knows the directory of a database. It decides whether it may be opened as a database, or a
// database created in it, and locks it (Dir). It keeps space in reserve for a full disk (Reserve), and adds up
// what the files use (Measure).
//
// # Logs in another directory
//
// The logs of a database may be in another directory than its other files, for example on another
// device (LogDir). A file system shows the logs as files of the database's directory, so that recovery,
// repair and reports need not know where they are. New logs are created in the directory of the logs.
// Logs that were in the database's directory before are read and removed there.
//
// # The marks
//
// Without its logs a database is older than it was, and may look sound. So no engine must open it without them:
//
//   - Both directories have a file with the same random identity: LOGDIR in that of the database,
//     LOGS in that of the logs. They are compared when a database is opened, and again under the lock. A
//     directory of logs belongs to one database, and not to a copy of it. It has no other file of a
//     database, and is kept from becoming one. It is locked like that of the database.
//   - The MANIFEST records the name of the comparer with a prefix, so LevelDB and goleveldb refuse
//     the database, and say that name.
//
// The files are durable before the MANIFEST has the prefix, and it has the prefix before the first
// log in the other directory has an entry. So after a crash anywhere in between there is no entry
// that an engine could miss. The way back is the reverse: the MANIFEST without the prefix needs no
// log from the other directory, and the files are removed after it, LOGDIR first.
//
// Logs are lost if the recorded directory is missing or another's, or if LOGDIR is. Then a repair may
// continue without them, and records that afterwards (Repaired).
package dbdir
