package kv

import "context"

// Mutex is a lock that is held while other nodes are asked. A goroutine waits for it until a context ends. In tests by
// fake time (testing/synctest) time passes meanwhile; it stands still while a goroutine waits for a sync.Mutex.
type Mutex chan struct{}

// NewMutex returns a Mutex that is not locked.
func NewMutex() Mutex { return make(Mutex, 1) }

// Lock implements sync.Locker.
func (m Mutex) Lock() { m <- struct{}{} }

// LockContext locks m, or returns the error of ctx.
func (m Mutex) LockContext(ctx context.Context) error {
	select {
	case m <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Unlock implements sync.Locker.
func (m Mutex) Unlock() { <-m }
