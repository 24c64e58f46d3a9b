// Package order watches the order in which a store makes things durable, and
// says when it breaks a rule that keeps a power cut harmless. It cuts no power:
// one run of a workload shows a breach that only one cut in ten thousand would.
// Only tests import it.
//
//	db ──► order.FS ──► any file system
//
// # The rules
//
//  1. When an edit is written to a MANIFEST, each table that it adds is synced to
//     its last byte, and its name is durable.
//  2. When a log is synced, which is what a synced write waits for, its name is
//     durable, and so is every byte of the older logs that the MANIFEST in force
//     still needs.
//  3. When a file is renamed to CURRENT, its bytes are synced, it names a MANIFEST
//     whose bytes are synced, and that one's name is durable.
//  4. No table, log or MANIFEST is removed while a MANIFEST that a power cut may
//     put in force needs it: the one that the durable CURRENT names, and the one
//     that CURRENT names at the moment.
//  5. Nothing is appended to a file after a failed append or sync, and no failed
//     sync is tried again.
//  6. Nothing is written after Close.
//  7. When a file is renamed to CLOSED, its bytes are synced, and so are those and
//     the names of the log and the MANIFEST that it names; both are closed.
//
// Each Write to a MANIFEST holds bytes of one edit alone, as package wal does it; that is relied
// on. What a directory held before its LOCK was taken counts as durable: the checker itself reads
// only CURRENT and the MANIFEST, if a file is removed before a new MANIFEST is in force.
package order
