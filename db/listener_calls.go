package db

import (
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/write/txn"
)

// A listener's callback runs on a goroutine that others wait for, such as that of a flush or the leader of a write
// group. A call of Flush or Put on the same goroutine would wait for itself. So the goroutines in such a callback are
// recorded, and calls that would wait return ErrInListener there. If base.GoroutineID should ever not know them, no call
// is refused, and a call that waits for itself hangs.

// listenerCalls records the goroutines that run a callback of the listener.
type listenerCalls struct {
	// Open sets them.
	listener *EventListener
	Logger   *slog.Logger

	running atomic.Int32 // how many; hot paths stop here while it is 0
	mu      sync.Mutex
	depth   map[uint64]int // by goroutine; mu guards it
	// observer has the Updates whose functions run and are observed.
	observer txn.Observer
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
	id := base.GoroutineID()
	c.mu.Lock()
	defer c.mu.Unlock()
	return id != 0 && c.depth[id] > 0
}

// notify calls a callback of the listener, if it is set.
func notify[T any](c *listenerCalls, f func(T), what T) {
	if f == nil {
		return
	}
	id := base.GoroutineID()
	c.enter(id)
	defer c.leave(id)
	f(what)
}

// During calls work, in which the calling goroutine counts as one that runs a callback of the
// listener, and returns its error.
func (c *listenerCalls) During(work func() error) error {
	id := base.GoroutineID()
	c.enter(id)
	defer c.leave(id)
	return work()
}
