// Package recorder runs a workload once on a file system in memory, keeps every
// operation that changes the disk, and builds from that trace the disks which a
// power cut at any moment may leave. Only tests import it.
//
//	workload ──► FS ──► vfs.Mem          Trace: op 0, op 1, op 2, ...
//	              └── each change ──────────────────┐
//	                                                ▼
//	            Cursor ── walks the trace ──► at each cut: States(model) ──► Image
//
// Cut i is the moment at which the operations before i are done and no other is.
// A Cursor walks forward and holds the disk at its cut, so that a state costs no
// more than a look at the files that exist there: the workload is not run again,
// and bytes are shared with the trace.
//
// # The models
//
//	model  bytes                                        names
//	M0     those synced                                 those synced
//	M1     all                                          all
//	M2     all, but the last un-synced write is cut:    all
//	       at each 512-byte boundary of the file, and
//	       at one random byte
//	M3     of the un-synced 4 KiB pages a random part,  of the un-synced changes
//	       zeros where one is missing                   a random part
//	M4     as M3, garbage where one is missing          as M3
//	M5     all, or those synced                         the first few of the un-synced
//	                                                    changes in a random order
//
// M0 and M1 are one state a cut, M2 is several, M3 to M5 are one for each seed. A
// rename within a directory is one change: both names, or neither.
//
// # Order under concurrency
//
// An operation and its entry in the trace happen under one lock. So the trace is the order of the
// operations of all goroutines, and Len before and after an event frames the event.
package recorder
