// Package logdir lets the logs of a database be in another directory than its other files, for
// example on another device.
//
// # The file system
//
// An FS shows the logs as files of the database's directory, so that recovery, repair and reports
// need not know where they are. New logs are created in the directory of the logs. Logs that were
// in the database's directory before are read and removed there.
//
// # The marks
//
// Without its logs a database is older than it was, and may look sound. So no engine must open it
// without them:
//
//   - Both directories have a file with the same random identity: LOGDIR in that of the database,
//     LOGS in that of the logs. Find compares them, and Lock and Begin do so again under the lock. A
//     directory of logs belongs to one database, and not to a copy of it. It has no other file of a
//     database, and Refuse keeps it from becoming one. It is locked like that of the database.
//   - The MANIFEST records the name of the comparer with a prefix, so LevelDB and goleveldb refuse
//     the database, and say that name.
//
// The files are durable before the MANIFEST has the prefix, and it has the prefix before the first
// log in the other directory has an entry. So after a crash anywhere in between there is no entry
// that an engine could miss. The way back is the reverse: the MANIFEST without the prefix needs no
// log from the other directory, and the files are removed after it, LOGDIR first.
//
// Logs are lost if the recorded directory is missing or another's, or if LOGDIR is (IsLost). Then a repair
// may continue without them, and records that afterwards (Abandon).
package logdir
