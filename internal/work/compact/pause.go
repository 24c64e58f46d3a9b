package compact

import (
	"context"
	"sync"

	"github.com/sievedb/sievedb/internal/base"
)

// pauses are the calls of Pause in effect. Scheduler.mu guards them.
type pauses struct {
	count int // no automatic compaction starts while it is above 0
	// automatic is the number of running compactions that no caller asked for.
	automatic int
}

// Pause prevents automatic compactions until resume is called, and waits for those that run. Several
// pauses may be in effect; each is ended by its own resume. Compact and UpgradeFilters continue. If
// ctx is done first, or the Scheduler is closed, there is no pause. resume may be called more than
// once, and after Close.
func (s *Scheduler) Pause(ctx context.Context) (resume func(), err error) {
	defer context.AfterFunc(ctx, s.wake)()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pauses.count++
	for s.pauses.automatic > 0 && ctx.Err() == nil && !s.closed.Load() {
		s.cond.Wait()
	}
	if err = ctx.Err(); s.closed.Load() {
		err = base.ErrClosed
	}
	if err != nil {
		s.resumeLocked()
		return nil, err
	}
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.resumeLocked()
	}), nil
}

func (s *Scheduler) resumeLocked() {
	s.pauses.count--
	s.scheduleLocked()
}

// Paused reports whether a Pause is in effect.
func (s *Scheduler) Paused() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pauses.count > 0
}

// automaticEnded records that a compaction that no caller asked for has ended.
func (s *Scheduler) automaticEnded() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pauses.automatic--
	s.cond.Broadcast()
}
