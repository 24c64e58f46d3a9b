package compact

import (
	"path/filepath"
	"time"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/pick"
	"github.com/sievedb/sievedb/internal/disk/version"
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

// outcome is what became of the compactions that have ended. Scheduler.mu guards it.
type outcome struct {
	err error // of the last one; nil after a success, or if nothing is due
	// parkedErr is that of the last compaction that met corruption. parked is the number of all inputs of such
	// compactions, which stay claimed.
	parkedErr error
	parked    int
	// stuckErr is parkedErr of tables of levels: for collections nobody waits.
	stuckErr error
	backoff  Backoff // of the next failure
	// collecting is that of failed collections of values, which nothing waits for: none begins before collectFrom, and
	// other compactions go on. aside are the value tables among the parked ones.
	collecting  Backoff
	collectFrom time.Time
	aside       []*version.FileMeta
}

// noteCollection handles the result of a collection of values.
func (s *Scheduler) noteCollection(err error) {
	if err == base.ErrClosed {
		return
	}
	if err == nil {
		s.mu.Lock()
		s.outcome.collecting = Backoff{}
		s.mu.Unlock()
	} else {
		s.delayCollections(err)
	}
	s.o.Ended(nil)
}

// delayCollections handles the error of a collection of values.
func (s *Scheduler) delayCollections(err error) {
	s.o.Logger.Warn("values were not collected; the space of those that nothing refers to stays in use", "err", err)
	s.mu.Lock()
	defer s.mu.Unlock()
	o := &s.outcome
	wait := o.collecting.Next(err)
	if !base.IsNoSpace(err) && !base.IsUnreadable(err) { // then room or another choice helps at once
		wait *= collectLater
	}
	o.collectFrom = time.Now().Add(wait)
	base.GoIn(&s.background, func() {
		_ = s.o.Guard("the start of a collection", func() error {
			if s.pause(wait) {
				s.Schedule()
				s.o.Ended(nil)
			}
			return nil
		})
	})
}

// collectLater is how many times longer a failed collection waits than another compaction: 3 s to half an hour.
const collectLater = 60

// GarbageLoad is that of the version without the value tables that were set aside, and 0 while none may be collected,
// in a pause or after a failure: slower writers would not help.
func (s *Scheduler) GarbageLoad(v *version.Version) float64 {
	base := s.tuning.Load().MaxLevelBase
	if pick.From(v).GarbageLoad(nil, base) == 0 {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state.counts[modePaused] > 0 || time.Now().Before(s.outcome.collectFrom) {
		return 0
	}
	return pick.From(v).GarbageLoad(s.outcome.aside, base)
}

// park sets tables aside because of err.
func (o *outcome) park(files []*version.FileMeta, err error) {
	for _, f := range files {
		o.parkedErr = err
		o.parked++
		if f.Values {
			o.aside = append(o.aside, f)
		} else {
			o.stuckErr = err
		}
	}
}

// atFault returns the inputs of c to set aside because of err: none if that is no corruption. Of value tables, which
// have nothing to do with each other, only the one is at fault that the error names, if it names one.
func atFault(c *pick.Compaction, err error) []*version.FileMeta {
	if !base.IsUnreadable(err) {
		return nil
	}
	var damage *base.CorruptionError
	if c.Level == version.ValuesLevel && errors.As(err, &damage) {
		for i, f := range c.Inputs {
			if f.Name() == filepath.Base(damage.File) {
				return c.Inputs[i : i+1]
			}
		}
	}
	return c.AllInputs()
}

// beginBackoff handles the result of an automatic compaction. After a failure the Scheduler is in modeBackoff for a
// while. Corruption needs no wait, since the inputs stay claimed and the next choice is another one.
func (s *Scheduler) beginBackoff(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	waiting := s.state.counts[modeBackoff] > 0
	switch {
	case err == nil && !waiting:
		s.outcome.backoff = Backoff{}
		return
	case err == nil || err == base.ErrClosed || base.IsUnreadable(err):
		return
	}
	wait := s.outcome.backoff.wait
	if !waiting { // concurrent failures count once
		wait = s.outcome.backoff.Next(err)
	}
	s.state.begin(modeBackoff)
	base.GoIn(&s.background, func() { // not the goroutine of the compaction: the user's code that it calls next may end that
		_ = s.o.Guard("the start of a compaction", func() error { s.endBackoff(wait); return nil })
	})
}

// endBackoff ends a back-off after its wait.
func (s *Scheduler) endBackoff(wait time.Duration) {
	open := s.pause(wait)
	s.mu.Lock()
	s.state.end(modeBackoff)
	s.mu.Unlock()
	if open {
		s.Schedule()
	}
}

// pause waits and reports whether the Scheduler is still open afterwards.
func (s *Scheduler) pause(wait time.Duration) bool {
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-s.state.closing:
		return false
	}
}

// noteOutcome records the result of a compaction and reports it to Options.Ended.
func (s *Scheduler) noteOutcome(err error) {
	err = base.NoSpace(err)
	s.mu.Lock()
	s.outcome.err = err
	s.cond.Broadcast()
	s.mu.Unlock()
	s.o.Ended(err)
}

// forgetErrorLocked forgets the error of the last compaction if nothing is due: what failed is done, or there
// is no need for it any more.
func (s *Scheduler) forgetErrorLocked() {
	if s.outcome.err != nil && len(s.work.running) == 0 && s.state.mode() == modeFree {
		s.outcome.err = nil
		s.cond.Broadcast()
	}
}

// Stuck returns the error that prevents compactions from making room in level 0, or nil. It
// is the error of the last compaction or, if only tables that were set aside remain to be
// compacted, the corruption for which they were. v is the current version.
func (s *Scheduler) Stuck(v *version.Version) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := &s.outcome
	if o.err == nil && o.stuckErr != nil && len(s.work.running) == 0 && s.pickOf(v, s.pickOptions()) == nil {
		return o.stuckErr
	}
	return o.err
}
