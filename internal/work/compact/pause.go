package compact

import (
	"context"
	"sync"

	"github.com/sievedb/sievedb/internal/base"
)

// Pause prevents automatic compactions until resume is called, and waits for those that run. Several pauses may be in
// effect; each is ended by its own resume. Compact and UpgradeFilters continue. If ctx is done first, or the Scheduler
// is closed, there is no pause. resume may be called more than once, and after Close.
func (s *Scheduler) Pause(ctx context.Context) (resume func(), err error) {
	defer context.AfterFunc(ctx, s.wake)()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state.begin(modePaused)
	for s.work.automatic > 0 && ctx.Err() == nil && !s.state.isClosed() {
		s.cond.Wait()
	}
	if err = ctx.Err(); s.state.isClosed() {
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
	s.state.end(modePaused)
	s.scheduleLocked()
}

// Paused reports whether a Pause is in effect.
func (s *Scheduler) Paused() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state.counts[modePaused] > 0
}

// Hold prevents new compactions and upgrades of filters until release is called. Running ones
// continue. release does not call Schedule.
func (s *Scheduler) Hold() (release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state.begin(modeHeld)
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.state.end(modeHeld)
		s.cond.Broadcast()
	})
}
