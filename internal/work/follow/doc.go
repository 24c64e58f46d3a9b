// Package follow reads a database that another process may have open for writing: SieveDB, LevelDB or
// goleveldb. It takes no lock and writes nothing, and the writer does not notice.
//
// A Follower shows a prefix of the writer's history, a longer one after each Refresh. What makes that
// possible: tables never change, the MANIFEST and the logs only grow, and the writer removes a file
// only after the edit that makes it superfluous. A Refresh works in this order:
//
//  1. It reads the edits that were added to the MANIFEST, or all of it if CURRENT names another one.
//  2. It opens each new table (pins.go), so that the writer's removal does not matter. If one is gone,
//     there is a later edit: back to 1.
//  3. It reads what was added to the logs (logs.go) that the edits need. If one is gone, back to 1.
//  4. It publishes the result as one step.
//
// The MANIFEST or a log may end with half of a record: the writer is about to write the other half, or
// was killed. The next Refresh reads on from the beginning of that record.
//
// Step 3 comes after step 1, so the logs may be ahead of the version. Some writes are not in a log: a load, an ingest,
// a deleted range, or a transaction of goleveldb adds tables by an edit. A log that continues after such an edit has a
// gap in its sequence numbers. No record after a gap is used until an edit that reaches to the gap's end has been read.
//
// The result is published without a lock for readers, as Publish says. A reader that still has the old state must not
// see a part of the new one. So if the version changes, the new records go to new memtables, which the old state does
// not have. Otherwise they may go to the last memtable: they are invisible until the new sequence number is published.
package follow
