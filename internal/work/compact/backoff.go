package compact

import (
	"time"

	"github.com/sievedb/sievedb/internal/base"
)

// Backoff spaces out retries after failures. The zero Backoff begins with 50 ms.
type Backoff struct{ wait time.Duration }

// Next returns how long to wait after err: twice as long as the last time, up to 30
// seconds. With a full disk it is up to one second: a retry is cheap, and writers wait for it.
func (b *Backoff) Next(err error) time.Duration {
	longest := 30 * time.Second
	if base.IsNoSpace(err) {
		longest = time.Second
	}
	b.wait = min(max(2*b.wait, 50*time.Millisecond), longest)
	return b.wait
}

// beginBackoff handles the result of a background compaction. After a failure it pauses
// background compactions and returns for how long; the caller ends the pause. Corruption
// needs no pause, since the inputs stay claimed and the next choice is another one.
func (s *Scheduler) beginBackoff(err error) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err == nil && s.paused == 0:
		s.backoff = Backoff{}
		return 0
	case err == nil || err == base.ErrClosed || base.IsUnreadable(err):
		return 0
	}
	// Concurrent failures count once. During a HoldBackground there may be no wait yet, but the caller ends the pause
	// only if there is one.
	if s.paused++; s.paused > 1 && s.backoff.wait > 0 {
		return s.backoff.wait
	}
	return s.backoff.Next(err)
}

// SetBackoff makes the next back-off after a failure twice as long as wait, up to the maximum.
func (s *Scheduler) SetBackoff(wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.backoff.wait = wait
}

// pause waits and reports whether the Scheduler is still open afterwards.
func (s *Scheduler) pause(wait time.Duration) bool {
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-s.closing:
		return false
	}
}
