package overview

import (
	"context"
	"sync"
	"time"
)

// An overview, for which all nodes answer, is used for restFactor times the time that the answers took, and at least
// for atLeast. So a busy cluster is asked less often. A silent node does not make overviews older.
const (
	restFactor = 20
	atLeast    = 900 * time.Millisecond
	atMost     = 5 * time.Second
)

// Shared gives the same overview to all who ask within some time. Its methods may be called from any goroutine.
type Shared struct {
	look func(ctx context.Context) Overview
	now  func() time.Time

	mu    sync.Mutex // guards the rest, also while the nodes answer
	last  Overview
	until time.Time
}

// Share returns a Shared of what look returns.
func Share(look func(ctx context.Context) Overview) *Shared {
	return &Shared{look: look, now: time.Now}
}

// Get returns an overview, which must not be changed.
func (s *Shared) Get(ctx context.Context) Overview {
	s.mu.Lock()
	defer s.mu.Unlock()
	begin := s.now()
	if begin.Before(s.until) {
		return s.last
	}
	// Others wait for it, so the end of this request does not end it.
	s.last = s.look(context.WithoutCancel(ctx))
	s.until = begin.Add(max(atLeast, min(restFactor*s.last.Took, atMost)))
	return s.last
}
