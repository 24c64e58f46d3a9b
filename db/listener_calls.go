package db

import (
	"bytes"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
)

// A listener's callback runs on a goroutine that others wait for, such as that of a flush or
// the leader of a write group. A call of Flush or Put on the same goroutine would wait for
// itself. So the goroutines in such a callback are recorded, and calls that would wait return
// ErrInListener there.

// listenerCalls records the goroutines that run a callback of the listener.
type listenerCalls struct {
	running atomic.Int32 // how many; hot paths stop here while it is 0
	mu      sync.Mutex
	depth   map[uint64]int // by goroutine; mu guards it
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

// goroutineID returns the ID of the current goroutine, which is 1 or more. The runtime reports it
// only in the first line of a stack trace: "goroutine 7 [running]:". A call takes about a
// microsecond. If a later runtime writes that line in another form, the result is 0. Then no call
// is refused, and a call that waits for itself hangs.
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
