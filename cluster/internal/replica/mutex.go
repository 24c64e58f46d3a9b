package replica

import (
	"context"
	"runtime"
	"sync/atomic"
)

// mutex is a lock for which a goroutine waits until a context ends. As with a sync.Mutex in its normal mode, the first
// goroutine that runs after an Unlock gets it. If the one that has waited longest got it, it would be unused until that
// goroutine runs, and commands take microseconds.
type mutex struct {
	locked  atomic.Bool
	waiting atomic.Int32
	wake    chan struct{} // has room for one; a goroutine that takes it tries again
}

// yields is how often a goroutine lets others run before it waits.
const yields = 4

func newMutex() *mutex { return &mutex{wake: make(chan struct{}, 1)} }

// Lock implements sync.Locker.
func (m *mutex) Lock() { _ = m.LockContext(context.Background()) }

// LockContext locks m, or returns the error of ctx.
func (m *mutex) LockContext(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if m.locked.CompareAndSwap(false, true) {
		return nil
	}
	// Mostly the lock is free in a moment, and it costs less to let others run than to be woken.
	for range yields {
		runtime.Gosched()
		if m.locked.CompareAndSwap(false, true) {
			return nil
		}
	}
	m.waiting.Add(1)
	defer m.waiting.Add(-1)
	for !m.locked.CompareAndSwap(false, true) {
		select {
		case <-m.wake:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// Unlock implements sync.Locker. A goroutine that begins to wait after the look at waiting tries to lock before it
// sleeps.
func (m *mutex) Unlock() {
	m.locked.Store(false)
	if m.waiting.Load() == 0 {
		return
	}
	select {
	case m.wake <- struct{}{}:
	default:
	}
}
