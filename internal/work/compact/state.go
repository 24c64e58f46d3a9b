package compact

import "github.com/sievedb/sievedb/internal/base"

// mode is how much a Scheduler may begin. Each mode forbids what those before it forbid, and more. None but modeClosed
// ends work that has begun.
type mode uint8

const (
	// modeFree: everything that is due begins.
	modeFree mode = iota
	// modeBackoff: a compaction has failed a moment ago. No compaction begins that no caller asked for. Claim, and the
	// remaining pieces of running compactions, continue.
	modeBackoff
	// modePaused: Pause is in effect. It forbids the same as modeBackoff.
	modePaused
	// modeHeld: Hold is in effect. Nothing begins, and Claim waits.
	modeHeld
	// modeStopped: the store takes no edits any more. Nothing begins, and Claim returns the reason.
	modeStopped
	// modeClosed: the Scheduler is closed. Running work ends soon too.
	modeClosed
)

// state is what determines the mode. Each of these reasons begins and ends on its own, and the strictest of those in
// effect counts:
//
//	modeBackoff  from a failed compaction until the wait after it is over
//	modePaused   from Pause until its resume is called
//	modeHeld     from Hold until its release is called
//	modeStopped  from Stop on, or from the beginning for a store that is read-only
//	modeClosed   from Close on
//
// The first three are counted, because several may be in effect at a time. So a Scheduler that is held and paused, and
// whose compaction fails meanwhile, is free again when all three have ended, in whatever order they do.
//
// Scheduler.mu guards it, except that isClosed needs no lock.
type state struct {
	counts  [modeHeld + 1]int // of modeBackoff, modePaused and modeHeld; never negative
	stopErr error             // of Stop; nil before
	closing chan struct{}     // closed in modeClosed
}

func newState(readOnly bool) state {
	s := state{closing: make(chan struct{})}
	if readOnly {
		s.stopErr = base.ErrReadOnly
	}
	return s
}

// mode returns the strictest mode in effect.
func (s *state) mode() mode {
	switch {
	case s.isClosed():
		return modeClosed
	case s.stopErr != nil:
		return modeStopped
	}
	for m := modeHeld; m > modeFree; m-- {
		if s.counts[m] > 0 {
			return m
		}
	}
	return modeFree
}

// begin puts one more reason for m, a mode that is counted, into effect, and end ends one.
func (s *state) begin(m mode) { s.counts[m]++ }

func (s *state) end(m mode) {
	if s.counts[m]--; s.counts[m] < 0 {
		panic("compact: a pause, hold or back-off ended twice")
	}
}

// stop and close are final. Another error replaces the first one. close must not be called twice.
func (s *state) stop(err error) { s.stopErr = err }
func (s *state) close()         { close(s.closing) }

// isClosed reports whether the mode is modeClosed. It may be called without the lock.
func (s *state) isClosed() bool {
	select {
	case <-s.closing:
		return true
	default:
		return false
	}
}

// endErr returns why nothing will ever begin again, or nil.
func (s *state) endErr() error {
	if s.isClosed() {
		return base.ErrClosed
	}
	return s.stopErr
}
