// Package crashtest has the tests of what a store loses when something ends it or fails: the power at every operation
// on files, the process, an operation of the disk, its space, and code of the user that panics. They see a store only
// through its public functions and its files.
//
//	recorder, pagecache   what a disk may have after a power cut or a failed sync
//	oracle                which entries a store may have then
//	order                 which operations must follow others
//	cuts                  judges all states of a recorded run
//
// The flags, such as -crash.seed and -fault.ops, make the tests longer or repeat one; docs/reliability-runs.md lists the
// long runs.
package crashtest
