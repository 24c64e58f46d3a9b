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
// A Loader is used by one goroutine at a time. Its lock is only against GiveUp, which the store
// calls when it closes, and against a listener of the store.
package load
