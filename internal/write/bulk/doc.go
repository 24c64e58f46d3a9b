// Package bulk makes the changes of a store that are not records of the log: loads, ingests and deletions of
// ranges. Each writes or takes over tables apart from the store, and one edit of the MANIFEST, which the leader of
// the writers installs, makes all of it visible at one moment and durable. A crash leaves nothing of one that was
// not installed: its tables have temporary names, which the next opening removes.
//
// A Coordinator has what they share. It is all of the package that the store sees, besides the loads that it
// hands out (Loader, Transaction):
//
//   - Exclusion. One deletion of a range runs at a time, and no load or ingest is installed during it. Their jump
//     of sequence numbers would overtake the deletion, they may wait, as the leader, for tables that it has
//     reserved, and it finds by its numbers what was written meanwhile.
//   - Sequence numbers. New entries get a number that is reserved far above the assigned ones, so they win over
//     all earlier writes, and no snapshot from before sees them. The edit advances the store to that number. If the
//     store has come that far before, because of many writes or of another edit, the job is overtaken.
//   - Snapshots. Some edits are cheaper if no snapshot is open that reads the current state. None of them waits for
//     the snapshots: each begins with what it must do while they are open, and begins again, with the cheaper
//     way, if the last of them is closed meanwhile (errDrained). While it works, new snapshots pin what they read.
//   - Installation. It records the change for readers of changes, applies the edit, notes what transactions cannot
//     find by sequence numbers, and makes number and tables visible at one moment; see change.go.
//
// The tables are prepared before writers have to wait. As the leader (Options.Lead) each job flushes the writes of
// the meantime, because a lookup searches memtables first, and because goleveldb drops entries of the live log
// below the sequence number of an edit.
//
// Files: load*.go writes entries that come sorted, or those of a large transaction; ingest*.go takes over tables
// that were made elsewhere; rangedel*.go deletes ranges; run.go writes the tables of all three.
package bulk
