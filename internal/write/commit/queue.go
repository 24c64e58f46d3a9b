package commit

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/sievedb/sievedb/internal/disk/batch"
	"github.com/sievedb/sievedb/internal/write/txn"
)

// maxGroupBytes bounds the log record that a leader writes for several batches,
// so that the first of them does not wait long for the others. As LevelDB.
const maxGroupBytes = 1 << 20

// request is one writer's place in the queue.
type request struct {
	batch      *batch.Batch // nil for a request that is committed alone
	durability Durability
	alone      func() error    // runs instead of a write, alone
	check      txn.Check       // may be nil
	ctx        context.Context // ends the wait for the request's turn; may be nil
	err        error
	wake       chan bool // true: the receiver leads now; false: err is set
}

// newRequests returns a store's pool of requests. With one for all stores, a test in a bubble of
// testing/synctest could leave channels that only its bubble may use. It is allocated apart from the
// Committer, which the garbage collector would keep with it for a while.
func newRequests() *sync.Pool {
	return &sync.Pool{New: func() any { return &request{wake: make(chan bool, 1)} }}
}

// queue orders writers. The first one to find no leader leads: it commits a group from the head of the queue, itself
// first, then hands the leadership to the new head. While a leader waits for the disk, the next group gathers.
//
// A writer that finds the queue idle need not queue: it leads by a swap of the state, and
// steps down by another one if no writer has come meanwhile.
type queue struct {
	state    atomic.Uint32 // one of the constants below
	requests *sync.Pool

	mu      sync.Mutex // no other lock is acquired under it
	waiting []*request
	closed  error // what refuses requests; nil: nothing does

	// The fields below belong to the leader.
	group    []*request
	checked  bool           // a request of the group has a check
	before   []*batch.Batch // scratch
	expected int            // the number of writers when the last group was done
}

// The states of a queue. It becomes crowded, and leaves that state, with mu held.
const (
	idle    = iota // there is no leader, and no writer waits
	led            // there is a leader outside the queue, and no writer waits
	crowded        // the queue is in use: its leader was in it, or a writer waits; or it is closed
)

// enter queues r and waits until the caller leads, at the head of the queue, or r has ended.
func (q *queue) enter(r *request) (leads bool) {
	if r.wake == nil {
		r.wake = make(chan bool, 1)
	}
	q.mu.Lock()
	if q.closed != nil {
		r.err = q.closed
		q.mu.Unlock()
		return false
	}
	q.waiting = append(q.waiting, r)
	leads = q.state.Swap(crowded) == idle
	q.mu.Unlock()
	return leads || q.await(r)
}

// await waits until r leads, and returns true, or has ended.
func (q *queue) await(r *request) (leads bool) {
	if r.ctx != nil {
		select {
		case leads := <-r.wake:
			return leads
		case <-r.ctx.Done():
			if q.leave(r) {
				return false
			}
		}
	}
	return <-r.wake
}

// leave ends r with the error of its context, unless it leads or is in a group.
func (q *queue) leave(r *request) bool {
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
func (q *queue) tryLead() bool { return q.state.CompareAndSwap(idle, led) }

// stepDown gives up the leadership, after a group of that many writers.
func (q *queue) stepDown(group int) {
	q.expected = group
	if q.state.CompareAndSwap(led, idle) {
		return
	}
	q.mu.Lock()
	q.expected += len(q.waiting)
	if len(q.waiting) > 0 {
		q.waiting[0].wake <- true
	} else {
		q.state.Store(idle)
	}
	q.mu.Unlock()
}

// gatherYields bounds how often a leader lets other goroutines run before it syncs: that many
// passes of the run queue take some microseconds, a sync a hundred times that.
const gatherYields = 4

// gather yields before a sync, so that just-released writers can rejoin the group. Without
// that, two halves of the writers would take turns, each waiting for the other's sync and then
// for its own. It returns how often it has yielded.
func (q *queue) gather() (yields int) {
	for ; yields < gatherYields; yields++ {
		q.mu.Lock()
		enough := q.waiting[0].durability != OnDisk || len(q.waiting) >= q.expected
		q.mu.Unlock()
		if enough {
			break
		}
		runtime.Gosched()
	}
	return yields
}

// takeGroup moves the requests that are committed together from the queue to q.group. A request
// that is not a write is committed alone. A group with an empty batch, which only syncs the log,
// holds no more than room, what the memtable has left: a sync of the log does not wait for a flush
// because of a write that shares its group, and does not fail with it.
func (q *queue) takeGroup(room int) {
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
func (q *queue) dropConflicts() {
	before := q.before[:0]
	for _, r := range q.group {
		if r.check != nil {
			if err := r.check(before); err != nil {
				r.batch, r.durability, r.err = &noWrites, InBuffer, err
			}
		}
		before = append(before, r.batch)
	}
	clear(before)
	q.before = before[:0]
}

// noWrites is the batch of a request whose own one is not written. It is never changed.
var noWrites batch.Batch

// endGroup ends the requests of the group, whose first one is the caller's, with err, except for those whose checks
// have failed. Then it steps down.
func (q *queue) endGroup(err error) {
	n := len(q.group)
	for i, r := range q.group {
		if r.batch != &noWrites {
			r.err = err
		}
		if i > 0 {
			r.wake <- false
		}
	}
	clear(q.group)
	q.group = q.group[:0]
	q.stepDown(n)
}

// shut refuses new requests with an error and waits until those queued are done, which is
// soon: the store does not write any more, so each of them fails.
func (q *queue) shut(refuse error) {
	q.mu.Lock()
	q.closed = refuse
	wait := q.state.Swap(crowded) != idle
	var last *request
	if wait {
		last = &request{wake: make(chan bool, 1), alone: func() error { return nil }}
		q.waiting = append(q.waiting, last)
	}
	q.mu.Unlock()
	if wait {
		<-last.wake // the leadership, which is never passed on
	}
}
