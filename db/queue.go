package db

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/batch"
	"github.com/sievedb/sievedb/internal/write/txn"
)

// maxGroupBytes bounds the log record that a leader writes for several batches,
// so that the first of them does not wait long for the others. As LevelDB.
const maxGroupBytes = 1 << 20

// commitRequest is one writer's place in the queue.
type commitRequest struct {
	batch *batch.Batch // nil for a request that is committed alone
	keep  durability
	alone func(*DB) error // runs instead of a write, alone
	check txn.Check       // may be nil
	ctx   context.Context // ends the wait for the request's turn; may be nil
	err   error
	wake  chan bool // true: the receiver leads now; false: err is set
}

// newCommitRequests returns a store's pool of requests. With one for all stores, a test in a bubble of
// testing/synctest could leave channels that only its bubble may use. It is allocated apart from the
// DB, which the garbage collector would keep with it for a while.
func newCommitRequests() *sync.Pool {
	return &sync.Pool{New: func() any { return &commitRequest{wake: make(chan bool, 1)} }}
}

// commitQueue orders writers. The first one to find no leader leads: it commits
// a group from the head of the queue, itself first, then hands the leadership to
// the new head. While a leader waits for the disk, the next group gathers.
//
// A writer that finds the queue idle need not queue: it leads by a swap of the state, and
// steps down by another one if no writer has come meanwhile.
type commitQueue struct {
	state    atomic.Uint32 // one of the constants below
	requests *sync.Pool

	mu      sync.Mutex
	waiting []*commitRequest
	closed  error // what refuses requests; nil: nothing does

	// The fields below belong to the leader.
	group    []*commitRequest
	checked  bool           // a request of the group has a check
	before   []*batch.Batch // scratch
	record   []byte
	expected int // the number of writers when the last group was done
}

// The states of a commitQueue. It becomes crowded, and leaves that state, with mu held.
const (
	commitIdle    = iota // there is no leader, and no writer waits
	commitLed            // there is a leader outside the queue, and no writer waits
	commitCrowded        // the queue is in use: its leader was in it, or a writer waits; or it is closed
)

// run queues r and returns when it was committed.
func (q *commitQueue) run(d *DB, r *commitRequest) error {
	if r.wake == nil {
		r.wake = make(chan bool, 1)
	}
	q.mu.Lock()
	if err := q.closed; err != nil {
		q.mu.Unlock()
		return err
	}
	q.waiting = append(q.waiting, r)
	lead := q.state.Swap(commitCrowded) == commitIdle
	q.mu.Unlock()
	if !lead && !q.await(r) {
		return r.err
	}
	q.lead(d)
	return r.err
}

// await waits until r leads, and returns true, or has ended.
func (q *commitQueue) await(r *commitRequest) (lead bool) {
	if r.ctx != nil {
		select {
		case lead := <-r.wake:
			return lead
		case <-r.ctx.Done():
			if q.leave(r) {
				return false
			}
		}
	}
	return <-r.wake
}

// leave ends r with the error of its context, unless it leads or is in a group.
func (q *commitQueue) leave(r *commitRequest) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	i := slices.Index(q.waiting, r)
	if i < 0 || len(r.wake) > 0 {
		return false
	}
	q.waiting = slices.Delete(q.waiting, i, i+1)
	r.err = r.ctx.Err()
	return true
}

// tryLead makes the caller the leader if there is none. It is not in the queue then.
func (q *commitQueue) tryLead() bool { return q.state.CompareAndSwap(commitIdle, commitLed) }

// stepDown gives up the leadership, after a group of that many writers.
func (q *commitQueue) stepDown(group int) {
	q.expected = group
	if q.state.CompareAndSwap(commitLed, commitIdle) {
		return
	}
	q.mu.Lock()
	q.expected += len(q.waiting)
	if len(q.waiting) > 0 {
		q.waiting[0].wake <- true
	} else {
		q.state.Store(commitIdle)
	}
	q.mu.Unlock()
}

// lead commits the group at the head of the queue, the caller's request first.
func (q *commitQueue) lead(d *DB) {
	returned := false
	defer func() {
		if !returned {
			d.leaderPanicked(recover())
		}
	}()
	q.gather()
	q.takeGroup(d.state().Mem.Available())
	err := base.NoSpace(d.commitGroup(q))
	returned = true
	own, n := q.group[0], len(q.group)
	own.end(err)
	for _, r := range q.group[1:] {
		r.end(err)
		r.wake <- false
	}
	clear(q.group)
	q.group = q.group[:0]
	q.stepDown(n)
}

// gatherYields bounds how often a leader lets other goroutines run before it syncs: that many
// passes of the run queue take some microseconds, a sync a hundred times that.
const gatherYields = 4

// gather yields before a sync, so that just-released writers can rejoin the group. Without
// that, two halves of the writers would take turns, each waiting for the other's sync and then
// for its own.
func (q *commitQueue) gather() {
	for range gatherYields {
		q.mu.Lock()
		enough := q.waiting[0].keep != onDisk || len(q.waiting) >= q.expected
		q.mu.Unlock()
		if enough {
			return
		}
		runtime.Gosched()
	}
}

// takeGroup moves the requests that are committed together from the queue to q.group. A request
// that is not a write is committed alone. A group with an empty batch, which only syncs the log,
// holds no more than room, what the memtable has left: SyncLog does not wait for a flush because
// of a write that shares its group, and does not fail with it.
func (q *commitQueue) takeGroup(room int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	n, size, memSize, syncs := 0, 0, uint64(0), false
	q.checked = false
	for _, r := range q.waiting {
		if r.alone != nil {
			n = max(n, 1)
			break
		}
		size += r.batch.Size()
		memSize += r.batch.MemSize()
		syncs = syncs || r.batch.Len() == 0
		if n > 0 && (size > maxGroupBytes || syncs && memSize > uint64(room)) {
			break
		}
		q.checked = q.checked || r.check != nil
		n++
	}
	q.group = append(q.group[:0], q.waiting[:n]...)
	rest := copy(q.waiting, q.waiting[n:])
	clear(q.waiting[rest:])
	q.waiting = q.waiting[:rest]
}

// dropConflicts runs the checks of the group. A request that fails stays in the group with an
// empty batch and its error.
func (q *commitQueue) dropConflicts() {
	before := q.before[:0]
	for _, r := range q.group {
		if r.check != nil {
			if err := r.check(before); err != nil {
				r.batch, r.keep, r.err = &noWrites, inBuffer, err
			}
		}
		before = append(before, r.batch)
	}
	clear(before)
	q.before = before[:0]
}

// noWrites is the batch of a request whose own one is not written. It is never changed.
var noWrites batch.Batch

// end ends a request of a group whose error is err, unless its check had one.
func (r *commitRequest) end(err error) {
	if r.batch != &noWrites {
		r.err = err
	}
}

// shut refuses new requests with an error and waits until those queued are done, which is
// soon: the store does not write any more, so each of them fails.
func (q *commitQueue) shut(refuse error) {
	q.mu.Lock()
	q.closed = refuse
	wait := q.state.Swap(commitCrowded) != commitIdle
	var last *commitRequest
	if wait {
		last = &commitRequest{wake: make(chan bool, 1), alone: (*DB).handOver}
		q.waiting = append(q.waiting, last)
	}
	q.mu.Unlock()
	if wait {
		<-last.wake // the leadership, which is never passed on
	}
}
