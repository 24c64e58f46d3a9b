// Package order checks the order in which a store makes files durable, and reports violations of the
// rules that keep a power cut harmless. It simulates no power cut: one run of a workload shows a
// violation that only one cut in ten thousand would show. Only tests import it.
//
//	db ──► order.FS ──► any file system
//
// # The rules
//
//  1. When an edit is written to a MANIFEST, all bytes of each table that it adds
//     are synced, and the name of the table is durable.
//  2. When a log is synced, which is what a synced write waits for, its name is
//     durable, and so is every byte of the older logs that the MANIFEST in force
//     still needs, and their end: a power cut leaves no reserved zeros behind them.
//  3. When a file is renamed to CURRENT, its bytes are synced, and the bytes and
//     the name of the MANIFEST that it names are durable.
//  4. No table, log or MANIFEST is removed while a MANIFEST needs it that a power
//     cut may put in force: the one that the durable CURRENT names, or the one that
//     CURRENT names now.
//  5. Nothing is appended to a file after a failed append, sync or cut, and no failed
//     sync is retried.
//  6. Nothing is written to a file after its Close.
//  7. When a file is renamed to CLOSED, its bytes are synced. The bytes and names of
//     the log and the MANIFEST that it names are durable, as is the end of the log, and
//     both files are closed.
//  8. When a directory is renamed, its files are synced and closed, and their names durable.
//
// Rules 2 and 4 are not for directories whose names end in ".checkpoint": no writer waits for their
// logs, and nothing reads them before they are renamed.
//
// The checker relies on package wal to write each edit to a MANIFEST with its own Writes. Files that a
// directory had before its LOCK was taken count as durable. The checker reads no such files except
// CURRENT and its MANIFEST, when a file is removed before a new MANIFEST is in force.
package order
