package db

import (
	"bytes"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/sievedb/sievedb/internal/disk/batch"
	"github.com/sievedb/sievedb/internal/write/txn"
)

// A listener's callback runs on a goroutine that others wait for, such as that of a flush or the leader of a write
// group. A call of Flush or Put on the same goroutine would wait for itself. So the goroutines in such a callback are
// recorded, and calls that would wait return ErrInListener there.

// listenerCalls records the goroutines that run a callback of the listener.
type listenerCalls struct {
	running atomic.Int32 // how many; hot paths stop here while it is 0
	mu      sync.Mutex
	depth   map[uint64]int // by goroutine; mu guards it
	// observed are the Updates whose functions run and are observed, by goroutine; mu guards it.
	observed  map[uint64]*observation
	observing atomic.Int32 // how many
}

// observation is a call of the function of an Update. Only its goroutine uses it.
type observation struct {
	written []txn.Range
	outer   *observation // of the same goroutine
}

// Observe calls the function of an Update, and returns what it wrote by other means than its transaction.
func (c *listenerCalls) Observe(f func() error) ([]txn.Range, error) {
	id, o := goroutineID(), &observation{}
	if id == 0 {
		return nil, f()
	}
	c.mu.Lock()
	if c.observed == nil {
		c.observed = make(map[uint64]*observation)
	}
	o.outer, c.observed[id] = c.observed[id], o
	c.observing.Add(1)
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.observed[id] = o.outer; o.outer == nil {
			delete(c.observed, id)
		}
		c.observing.Add(-1)
	}()
	err := f()
	return o.written, err
}

// Observation returns that of this goroutine, or nil.
func (c *listenerCalls) Observation() *observation {
	if c.observing.Load() == 0 {
		return nil
	}
	return c.observation()
}

func (c *listenerCalls) observation() *observation {
	id := goroutineID()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.observed[id]
}

// note records a write.
func (o *observation) note(lower, upper []byte, closed bool) {
	r := txn.Range{Lower: slices.Clone(lower), Upper: slices.Clone(upper), Closed: closed}
	for ; o != nil; o = o.outer {
		o.written = append(o.written, r)
	}
}

func (o *observation) noteKey(key []byte) {
	key = append([]byte{}, key...) // nil would be no bound
	o.note(key, key, true)
}

// noteBatch is noteKey for the keys of a batch.
func (o *observation) noteBatch(b *batch.Batch) {
	r := batch.ReaderOf(b.Entries(), b.Count())
	for _, key, _, _, ok, _ := r.Next(); ok; _, key, _, _, ok, _ = r.Next() {
		o.noteKey(key)
	}
}

func (c *listenerCalls) enter(goroutine uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.depth == nil {
		c.depth = make(map[uint64]int)
	}
	c.depth[goroutine]++
	c.running.Add(1)
}

func (c *listenerCalls) leave(goroutine uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.depth[goroutine]--; c.depth[goroutine] == 0 {
		delete(c.depth, goroutine)
	}
	c.running.Add(-1)
}

// InThisGoroutine reports whether the caller was called from a callback of the listener.
func (c *listenerCalls) InThisGoroutine() bool { return c.running.Load() != 0 && c.look() }

func (c *listenerCalls) look() bool {
	id := goroutineID()
	c.mu.Lock()
	defer c.mu.Unlock()
	return id != 0 && c.depth[id] > 0
}

// callListener calls a callback of the listener, if it is set.
func callListener[T any](c *listenerCalls, f func(T), what T) {
	if f == nil {
		return
	}
	id := goroutineID()
	c.enter(id)
	defer c.leave(id)
	f(what)
}

// During calls work, in which the calling goroutine counts as one that runs a callback of the
// listener, and returns its error.
func (c *listenerCalls) During(work func() error) error {
	id := goroutineID()
	c.enter(id)
	defer c.leave(id)
	return work()
}

// goroutineID returns the ID of the current goroutine, which is 1 or more. The runtime reports it only in the first
// line of a stack trace: "goroutine 7 [running]:". A call takes about a microsecond. If a later runtime writes that
// line in another form, the result is 0. Then no call is refused, and a call that waits for itself hangs.
func goroutineID() uint64 {
	var buf [64]byte
	line := bytes.TrimPrefix(buf[:runtime.Stack(buf[:], false)], []byte("goroutine "))
	number, _, _ := bytes.Cut(line, []byte(" "))
	id, err := strconv.ParseUint(string(number), 10, 64)
	if err != nil {
		return 0
	}
	return id
}
