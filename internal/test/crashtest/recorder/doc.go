// Package recorder records the operations of a workload that change the disk, on a file system in memory. From that
// trace it builds the disks that a power cut at any moment may leave. Only tests import it.
//
//	workload ──► FS ──► vfs.Mem          Trace: op 0, op 1, op 2, ...
//	              └── each change ──────────────────┐
//	                                                ▼
//	            Cursor ── walks the trace ──► at each cut: States(model) ──► Image
//
// Cut i is the moment at which the operations before i are done, and no others. A Cursor moves forward
// through the trace and has the disk at its cut. To build a state, it only visits the files that exist
// there: it does not run the workload again, and shares the bytes with the trace.
//
// # The models
//
//	model  bytes                                        names
//	M0     synced bytes                                 synced names
//	M1     all                                          all
//	M2     all, but the last unsynced write is cut:     all
//	       at each 512-byte boundary of the file, and
//	       at one random byte
//	M3     synced bytes and a random part of the        synced names and a random part
//	       unsynced 4 KiB pages; the others are zeros   of the unsynced changes
//	M4     as M3, but the other pages are garbage       as M3
//	M5     all, or only synced bytes                    synced names and the first few unsynced
//	                                                    changes in a random order
//
// M0 and M1 have one state for each cut, M2 has several, and M3 to M5 have one for each seed. A rename
// within a directory is one change: both names change, or neither.
//
// # Logs
//
// A log of CreateLog is longer than its records. Its reservations and its end, by Cut or Close, are operations of their
// own, and in a state it is as long as at the cut or, where only synced bytes are there, at its last sync. Under M2 the
// bytes that are cut off a write to it are zeros. Under M3 and M4 it has any length between that of its pages and that
// of its reservation, but not less than at the last sync unless it was cut since. M1 has a second state where a write
// to a log is next: the process died in it, so some of the bytes behind the head of the record are there, and the head
// is zeros. That state, too, has every acknowledged write.
//
// # Order under concurrency
//
// An operation and its entry in the trace are made under one lock. So the trace has the order of the
// operations of all goroutines, and an event is between the values of Len before and after it.
package recorder
