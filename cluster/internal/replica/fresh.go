package replica

import (
	"context"
	"sync"
	"time"

	"github.com/sievedb/sievedb/cluster/internal/kv"
)

// freshness is how new the applied state surely is: it has all that was acknowledged, on any node, before a time of
// this node. That is the time at which this replica sent a question to the leader, whose answer is applied by now.
//
// When a message of the leader arrived, or was handled, says nothing: it may have waited in a socket while this
// process, or that of the leader, was paused. And a leader answers only after a majority has confirmed it, because it
// may have been paused and deposed.
//
// Nobody is asked before a client reads so. While clients do, a question is asked each eighth of the bound.
type freshness struct {
	mu       sync.Mutex
	known    bool
	asOf     time.Duration // by Options.Elapsed
	asking   chan struct{} // closed when the present question has its end; nil: there is none
	failed   bool          // the last question did
	failedAt time.Duration
	closed   bool
}

// close lets no further question begin.
func (s *freshness) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
}

// viewStale answers from the applied state, by the clock of its newest entry. If the process is paused before f has
// ended, the answer may be too old, and is not given.
func (r *Replica) viewStale(ctx context.Context, f func(r kv.Reader) error) error {
	if r.ctx.Err() != nil {
		return kv.ErrClosed
	}
	asOf, ok := r.freshAsOf(ctx)
	if !ok {
		return kv.ErrStale
	}
	if err := r.viewApplied(ctx, f); err != nil {
		return err
	}
	if r.o.Elapsed()-asOf > r.o.StaleBound {
		return kv.ErrStale
	}
	return nil
}

// freshAsOf returns the time from which on the state may lack writes. ok is false if that is too long ago. It asks
// the leader in time, and waits for the answer only if it is needed.
func (r *Replica) freshAsOf(ctx context.Context) (asOf time.Duration, ok bool) {
	s := &r.fresh
	s.mu.Lock()
	now := r.o.Elapsed()
	ok = s.known && now-s.asOf <= r.o.StaleBound
	if !ok || now-s.asOf > r.o.StaleBound/8 {
		r.askLocked(now)
	}
	asOf, asking := s.asOf, s.asking
	s.mu.Unlock()
	if ok || asking == nil {
		return asOf, ok
	}
	select {
	case <-asking:
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asOf, s.known && r.o.Elapsed()-s.asOf <= r.o.StaleBound
}

// askLocked begins to ask the leader. After a question that failed there is a pause, in which stale reads fail at once.
func (r *Replica) askLocked(now time.Duration) {
	s := &r.fresh
	if s.asking != nil || s.closed || s.failed && now-s.failedAt < r.o.AskTimeout {
		return
	}
	done := make(chan struct{})
	s.asking = done
	r.group.Go(func() {
		defer close(done)
		sent := r.o.Elapsed()
		err := r.ask()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.asking, s.failed = nil, err != nil
		if err != nil {
			s.failedAt = r.o.Elapsed()
			return
		}
		s.noteLocked(sent)
	})
}

// note records that the state has all that was acknowledged before a time.
func (s *freshness) note(asOf time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.noteLocked(asOf)
}

func (s *freshness) noteLocked(asOf time.Duration) {
	if !s.known || asOf > s.asOf {
		s.known, s.asOf = true, asOf
	}
}

// ask waits until the state has what the leader's answer says. A replica that lags may take as long as the bound.
func (r *Replica) ask() error {
	ctx, cancel := context.WithTimeout(r.ctx, r.o.AskTimeout)
	defer cancel()
	index, err := r.log.AskReadIndex(ctx)
	if err != nil {
		return err
	}
	ctx, cancel = context.WithTimeout(r.ctx, r.o.StaleBound)
	defer cancel()
	return r.state.WaitApplied(ctx, index)
}
