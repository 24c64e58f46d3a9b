// Package ingest adds tables that were made elsewhere to a store, all of them in one edit.
//
// # Steps
//
//  1. Each file is linked to a temporary name in the store's directory, or copied if that fails. From
//     here on only that file is read, so it does not matter whether the path changes.
//  2. Each file is synced and checked as a whole: every block, the order of the keys, the index and all
//     filters against each key, the properties against the entries.
//  3. Tables that cannot stay as they are (see below) are rewritten: the newest entry of each key gets
//     a reserved sequence number, as in a load.
//  4. As the leader of the writers (Host.Lead) the job flushes the writes of the meantime, checks
//     again that the other tables can stay, names all tables, and installs the edit. If a table
//     cannot stay any more, it gives up the leadership and continues with step 3.
//
// The temporary names are removed by the next opening of the store after a crash.
//
// # Which tables stay as they are
//
// Keys have their sequence numbers in the table, and LevelDB's format has no number for all of it. So
// a table stays as it is if it shares no user key range with another table of the call, and
//
//   - its sequence numbers are above all of the store's, or
//   - nothing in the store lies in its range, and no snapshot is open that would see it.
//
// The last sequence number of the store becomes at least the table's largest, and rises by one at
// least. Numbers far above the store's would exhaust them, so such a table is rewritten as well.
//
// # Readers
//
// Numbers below the visible one would let a snapshot from before see the table. From before the
// search for such snapshots until the end of the installation, new ones pin the state that they read
// (Host.Pin). The visible number is advanced before the version is replaced: a lookup loads the
// version first, so with the new version it never has the old number, which would show an old entry
// of a key or a part of the tables. Transactions that pin their state do not find such tables by their
// numbers, so Host.Install gets them; see txn.Untraced.
//
// A deletion of a range finds what was written meanwhile by its numbers as well, so none runs during
// the installation (Host.Exclude).
package ingest
