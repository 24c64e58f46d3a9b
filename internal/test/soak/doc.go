// Package soak runs the store for hours under a mixed load on a real directory, opens it again and
// again after a Close or the death of the process, and looks for faults that only time shows:
// memory and descriptors that grow, goroutines that remain, space that is not freed, writers that
// wait too long, and wrong answers. Only tests import it.
//
//	session 0   fill ──► work ──► Close ──► sample
//	session 1   open, all compared ──► work ──► Close ──► sample
//	session 2   a child opens and works ──► SIGKILL ──► sample
//	   ...
//	last        open, all compared, DB.Check ──► Close ──► verdict
//
// # Work
//
// Four workers write concurrently, each to its own keys, so each knows exactly the values of its
// keys: batch n of a worker is a function of seed, worker and n, and a value contains its key and
// n. The keys are overwritten and deleted, so the live set keeps its size. Values are random bytes:
// what compression would save does not hide the space that is wasted. Between its writes a worker
// looks keys up, scans a part of its keys forwards or backwards, and keeps a snapshot for a while
// to compare it with what it knew then; now and then it reads everybody's keys, flushes, or
// compacts a part of them.
//
// A child says of each batch, on a pipe, that it was acknowledged. When it is
// killed, each worker's keys must hold what was acknowledged, or one batch more:
// the one under way.
//
// # Verdict
//
// Samples are taken in the parent after each session, with the store closed and after a garbage collection that
// releases memory. The first quarter of them is warm-up. Of the others, the median of the last third may not exceed
// that of the first third by more than 5 %, for resident memory (VmRSS; elsewhere than on Linux what the runtime holds)
// and for open descriptors; in runs of less than sixty sessions memory may grow by 8 MiB more. Less is no fault. The
// number of goroutines must be the same after each Close.
//
// The directory is measured from the end of the fill on. The median of its size after each Close
// may be at most twice the bytes of the live keys and values. While the store works the bound is
// higher by the live bytes for each worker, because an iterator keeps the tables of its version.
//
// A writer's wait for flush or compaction is a stall; each is counted. The longest
// that is no fault is the caller's to say: see Config.LongestStall.
//
// # Flags of the test
//
//	-soak.for=10s    how long: short, as each run of all tests does it; at least
//	                 sixteen sessions are run in any case
//	-soak.stall=30s  the longest wait of a writer that is no fault
//	-soak.seed=0     decides the batches; 0: choose. What the scheduler and the
//	                 kills do, it does not repeat
package soak
