// Package load writes entries that arrive in the order of their keys directly as tables, and adds
// all tables to a store in one edit. db.Loader is its public face.
//
// All entries have one sequence number, which was reserved far above the assigned ones. The tables
// have temporary names until Commit, so a crash leaves nothing that the next opening needs, and
// no reader sees them. Commit does most of its work before writers have to wait for it:
//
//  1. It ends the last table and waits until all tables are durable.
//  2. It flushes the memtables, and compacts the part of level 0 that the load crosses.
//  3. As the leader of the writers (Host.Lead) it flushes the few writes since then, names the
//     tables, and installs the edit, which advances the store to the reserved number.
//
// A Bulk is a load of writes in any order, which are read before they are committed: the large
// transactions of db.BulkTransaction. It sorts them in memtables, and writes each full one to a
// table, with a sequence number for each write. These tables may overlap, so the edit puts them on
// level 0, in the order in which they were written; those that do not overlap go deeper, like the
// tables of other loads. To merge them before the commit would write each byte twice while writers
// may wait, and compactions do it later anyway. What is committed before a table was written is an
// ordinary batch.
//
// An iterator over a Bulk outlives it. If there is one at the commit, the tables get second names
// (hard links, or copies) instead of new ones, and the temporary ones stay until the last iterator
// is closed.
//
// A Loader is used by one goroutine at a time. Its lock is only against GiveUp, which the store
// calls when it closes, and against a listener of the store.
package load
