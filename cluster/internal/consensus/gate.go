package consensus

import (
	"sync"
	"time"
)

// gate counts the operations that wait for raft. Raft does not answer those that it holds when it is shut down
// and their goroutines would wait for ever, so the gate is shut first, until none is left.
type gate struct {
	mu      sync.Mutex
	changed sync.Cond
	inside  int
	shut    bool
	closed  bool
}

func newGate() *gate {
	g := &gate{}
	g.changed.L = &g.mu
	return g
}

// enter waits while the gate is shut. It returns false if it is closed.
func (g *gate) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.shut && !g.closed {
		g.changed.Wait()
	}
	if g.closed {
		return false
	}
	g.inside++
	return true
}

func (g *gate) exit() {
	g.mu.Lock()
	g.inside--
	g.changed.Broadcast()
	g.mu.Unlock()
}

// pause shuts the gate and waits until all have left. It returns false if that takes too long.
func (g *gate) pause(timeout time.Duration) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = true
	g.changed.Broadcast()
	late := false
	timer := time.AfterFunc(timeout, func() {
		g.mu.Lock()
		late = true
		g.changed.Broadcast()
		g.mu.Unlock()
	})
	defer timer.Stop()
	for g.inside > 0 && !late {
		g.changed.Wait()
	}
	return g.inside == 0
}

func (g *gate) resume() {
	g.mu.Lock()
	g.shut = false
	g.changed.Broadcast()
	g.mu.Unlock()
}

func (g *gate) close(timeout time.Duration) bool {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	return g.pause(timeout)
}
