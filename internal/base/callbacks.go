package base

import (
	"sync"
	"sync/atomic"
)

// Callbacks records the goroutines that run a callback. If GoroutineID should ever not know a goroutine, it is not
// recognized. The zero value is ready.
type Callbacks struct {
	running atomic.Int32 // how many; hot paths stop here while it is 0
	mu      sync.Mutex
	depth   map[uint64]int // by goroutine; mu guards it
}

// During calls a callback and returns its error.
func (c *Callbacks) During(callback func() error) error {
	id := GoroutineID()
	c.enter(id)
	defer c.leave(id)
	return callback()
}

func (c *Callbacks) enter(goroutine uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.depth == nil {
		c.depth = make(map[uint64]int)
	}
	c.depth[goroutine]++
	c.running.Add(1)
}

func (c *Callbacks) leave(goroutine uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.depth[goroutine]--; c.depth[goroutine] == 0 {
		delete(c.depth, goroutine)
	}
	c.running.Add(-1)
}

// InThisGoroutine reports whether the caller was called from a callback.
func (c *Callbacks) InThisGoroutine() bool { return c.running.Load() != 0 && c.look() }

func (c *Callbacks) look() bool {
	id := GoroutineID()
	c.mu.Lock()
	defer c.mu.Unlock()
	return id != 0 && c.depth[id] > 0
}
