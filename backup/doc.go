// Package backup stores backups of databases in a repository, which is a directory or a bucket, and restores them.
//
// Backups are incremental: a table is stored once, however many backups have it. A table that is stored
// already is recognized by its last bytes, so a backup reads and writes little more than what changed.
// A backup can be made while the database is used, and several backups, also by several machines, may
// use one repository at the same time, also during Prune.
//
//	storage, err := backup.NewDir(nil, "/mnt/backups")
//	if err != nil {
//		log.Fatal(err)
//	}
//	repo := backup.Open(storage)
//	info, err := repo.Create(ctx, store, nil)
//	if err != nil {
//		log.Fatal(err)
//	}
//	if _, err := repo.Restore(ctx, info.ID, "/var/lib/restored", nil); err != nil {
//		log.Fatal(err)
//	}
//
// Archive and KeepArchiving store the changes between backups as well, for databases with Options.Changes.
// RestoreAt then restores the state after any change.
//
// What a crash or an error interrupts leaves a valid repository: a backup is listed once all of its objects are stored.
// A restored directory exists once it is complete, and every byte of it was compared with a SHA-256 checksum.
//
// # The repository
//
// A repository consists of objects that are created and deleted but never changed. Their names
// contain an ID, which begins with the time at which it was made and ends with 64 random bits.
//
//	FORMAT              the format's version
//	objects/HH/SUM-ID   a file of a database; SUM is its SHA-256, HH its first two digits, ID that of
//	                    the backup that stored it
//	backups/ID          a backup: the names, sizes and checksums of its files
//	running/ID          a backup that is being made
//	condemned/ID        objects that will be deleted, see below
//	waits/ID            the backups that ran when condemned/ID had been written
//	identity/ID         a name of the repository, for the cursors of databases
//	streams/ID          a history of a database of which segments are stored
//	segments/ID/NUMBER  a segment of a history: changes, and where they are in time
//	tmp/...             objects of a directory that are being written
//
// Another top-level name, such as a later version may use, is left alone. The text of each object is
// described in docs/backup.md.
//
// # Backups during Prune
//
// No operation of Storage locks anything, so an object is deleted in two steps. Prune first writes a list of objects
// that no backup needs, and then the list of running backups. A backup that began later sees the first list and uses
// none of its objects; it stores what it needs again, under its own ID. Once the backups of the second list have ended,
// no backup can begin to need an object of the first one. Prune, or a later Prune, then reads all backups again and
// deletes the objects that none of them needs. The proof is in docs/decisions/0069-backups-without-locks.md.
//
// # Segments
//
// A stream is the history of one database, from its first backup on. Its segments are numbered, and an object
// is created only if its name is free, so a stream is a chain, also if several programs write to it. A program
// continues the stream for which the database has a cursor, after it has compared the newest segment with the changes
// of the database. So two copies of a directory, or a database whose numbers were used before, do not get into one
// stream. A segment that needs tables is stored as a backup is, and Prune keeps these tables in the same way.
//
// All functions may be called from any goroutine.
package backup
