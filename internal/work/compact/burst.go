package compact

import (
	"math"
	"time"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/pick"
	"github.com/sievedb/sievedb/internal/disk/version"
)

// burstPause is the time without a full memtable after which a burst of writes is over.
const burstPause = time.Second

// burst detects whether memtables become full in quick succession. While they do, level 0 collects more tables before
// it is compacted: a compaction of it rewrites about the same part of the base level, whether it has four inputs or
// eight. A million random puts went from 642,000 to 718,000 a second. A larger trigger at all times is as fast, but
// leaves up to seven runs to scans at rest. Scheduler.mu guards it.
type burst struct {
	full     time.Time // when a memtable last became full; zero after EndBurst
	watching bool      // a goroutine waits for the end
	quiet    bool      // see SetQuiet
}

func (b *burst) begin() { b.full, b.quiet = time.Now(), false }

func (b *burst) end() { b.full = time.Time{} }

// left returns how long the burst will last if no other memtable becomes full, or 0 if there is none.
func (b *burst) left() time.Duration {
	if b.full.IsZero() {
		return 0
	}
	return max(0, burstPause-time.Since(b.full))
}

// burstTrigger replaces L0Trigger during a burst. It is well below the number of tables from which writes are slowed.
func (t *Tuning) burstTrigger() int {
	return max(t.L0Trigger, min(2*t.L0Trigger, t.L0SlowdownTrigger*2/3))
}

// BeginBurst records that a memtable has become full: a burst of writes begins, or goes on.
func (s *Scheduler) BeginBurst() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.burst.begin()
}

// EndBurst ends a burst of writes. The next Schedule starts compactions that waited for that.
func (s *Scheduler) EndBurst() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.burst.end()
}

// SetQuiet says whether nothing has been written for a while. Then what would free space is looked for.
func (s *Scheduler) SetQuiet(quiet bool) {
	s.mu.Lock()
	s.burst.quiet = quiet
	s.mu.Unlock()
	if quiet {
		s.Schedule()
	}
}

// pickLocked chooses a compaction to run now, with a reference to its version, or returns nil.
// If one must wait for the end of a burst, pickLocked ensures that it is chosen then.
func (s *Scheduler) pickLocked() *pick.Compaction {
	for {
		// Loaded with the lock held, so that inputs released by done are not in this version.
		v, waitsFor := s.host.RefVersion(), uint64(math.MaxUint64)
		c := s.pickInBurst(v, &waitsFor)
		s.waitsFor.Store(waitsFor)
		if c != nil {
			return c
		}
		v.Unref()
		if s.host.OldestSnapshot() < waitsFor { // otherwise a snapshot was closed meanwhile
			return nil
		}
	}
}

func (s *Scheduler) pickInBurst(v *version.Version, waitsFor *uint64) *pick.Compaction {
	o := s.pickOptions()
	o.WaitsFor = waitsFor
	if s.relief.due {
		o.L0Trigger = 1
		return s.pickOf(v, o)
	}
	left := s.burst.left()
	if left == 0 {
		return s.pickOf(v, o)
	}
	later := o
	later.L0Trigger, later.InBurst = s.tuning.Load().burstTrigger(), true
	c := s.pickOf(v, later)
	if c == nil && !s.burst.watching && s.pickOf(v, o) != nil {
		s.burst.watching = true
		base.GoIn(&s.background, func() {
			_ = s.o.Guard("the start of a compaction", func() error { s.watchBurst(left); return nil })
		})
	}
	return c
}

// pickOf is Picker.Next for callers that hold mu and so must not panic. If the comparer panics,
// pickOf stops the Scheduler and picks nothing.
func (s *Scheduler) pickOf(v *version.Version, o pick.Options) (c *pick.Compaction) {
	defer func() {
		if value := recover(); value != nil {
			err := base.NewPanicError(s.o.Cmp, "the choice of a compaction", value)
			if s.state.mode() < modeStopped {
				s.state.stop(err)
				s.cond.Broadcast()
				base.GoIn(&s.background, func() {
					s.o.Fail(err)
				})
			}
		}
	}()
	return pick.From(v).Next(o)
}

// watchBurst waits until the burst is over and then starts compactions that waited for that.
func (s *Scheduler) watchBurst(left time.Duration) {
	for left > 0 {
		if !s.pause(left) {
			return
		}
		s.mu.Lock()
		left = s.burst.left()
		s.burst.watching = left > 0
		s.mu.Unlock()
	}
	s.Schedule()
}
