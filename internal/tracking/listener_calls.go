package tracking

import (
	"bytes"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
)

// A function of the listener is called by a goroutine that others wait for: a flush or the
// leader of a group, say. A call of Flush or Put by the same goroutine would wait for itself. So the
// goroutines in such a function are known, and calls that wait return ErrInListener there.

// ListenerCalls holds the goroutines that run a function of the listener.
type ListenerCalls struct {
	running atomic.Int32 // how many; hot paths look no further while it is 0
	mu      sync.Mutex
	depth   map[uint64]int // by goroutine; mu guards it
}

func (c *ListenerCalls) enter(goroutine uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.depth == nil {
		c.depth = make(map[uint64]int)
	}
	c.depth[goroutine]++
	c.running.Add(1)
}

func (c *ListenerCalls) leave(goroutine uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.depth[goroutine]--; c.depth[goroutine] == 0 {
		delete(c.depth, goroutine)
	}
	c.running.Add(-1)
}

// InThisGoroutine reports whether the caller is called from a function of the listener.
func (c *ListenerCalls) InThisGoroutine() bool { return c.running.Load() != 0 && c.look() }

func (c *ListenerCalls) look() bool {
	id := GoroutineID()
	c.mu.Lock()
	defer c.mu.Unlock()
	return id != 0 && c.depth[id] > 0
}

// Call calls a function of the listener, if it is set.
func Call[T any](c *ListenerCalls, f func(T), what T) {
	if f == nil {
		return
	}
	id := GoroutineID()
	c.enter(id)
	defer c.leave(id)
	f(what)
}

// GoroutineID returns the number of the present goroutine, 1 or more. The runtime gives it only in
// the first line of a stack: "goroutine 7 [running]:". It takes about a microsecond. 0 stands for a
// line of another form, which a later runtime may have: then no call is refused, and one that waits
// for itself hangs.
func GoroutineID() uint64 {
	var buf [64]byte
	line := bytes.TrimPrefix(buf[:runtime.Stack(buf[:], false)], []byte("goroutine "))
	number, _, _ := bytes.Cut(line, []byte(" "))
	id, err := strconv.ParseUint(string(number), 10, 64)
	if err != nil {
		return 0
	}
	return id
}
