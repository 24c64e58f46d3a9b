package compact

import (
	"time"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/manifest"
)

// BurstPause is how long no memtable has become full where a burst of writes is over.
const BurstPause = time.Second

// burst is whether memtables become full in quick succession. While they do, level 0
// gathers more tables before it is compacted: each compaction of it rewrites about as
// much of the base level, whether it brings four tables or eight. Scheduler.mu guards it.
type burst struct {
	clock    func() time.Time // for tests; nil: time.Now
	full     time.Time        // when a memtable was full for the last time; zero after a Flush
	watching bool             // a goroutine waits for the end
}

func (b *burst) now() time.Time {
	if b.clock != nil {
		return b.clock()
	}
	return time.Now()
}

func (b *burst) note() { b.full = b.now() }

func (b *burst) end() { b.full = time.Time{} }

// left returns for how long the burst lasts if nothing more comes, 0 where there is none.
func (b *burst) left() time.Duration {
	if b.full.IsZero() {
		return 0
	}
	return max(0, BurstPause-b.now().Sub(b.full))
}

// burstTrigger is L0CompactionTrigger during a burst: well below the number from which
// writes are slowed.
func (o *Options) burstTrigger() int {
	return max(o.L0Trigger, min(2*o.L0Trigger, o.L0SlowdownTrigger*2/3))
}

// NoteFull notes that a memtable has become full.
func (s *Scheduler) NoteFull() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.burst.note()
}

// EndBurst ends a burst of writes; the next Schedule starts what has waited for that.
func (s *Scheduler) EndBurst() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.burst.end()
}

// SetClock has clock tell the time of bursts, for tests.
func (s *Scheduler) SetClock(clock func() time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.burst.clock = clock
}

// pickLocked chooses what to compact now, with a reference to its version. What waits for
// the end of a burst is looked at again then.
func (s *Scheduler) pickLocked() *manifest.Compaction {
	// Loaded with the lock held: what done has released is in no later version.
	v := s.host.RefVersion()
	c := s.pickInBurst(v)
	if c == nil {
		v.Unref()
	}
	return c
}

func (s *Scheduler) pickInBurst(v *manifest.Version) *manifest.Compaction {
	o := s.pickOptions()
	left := s.burst.left()
	if left == 0 {
		return s.pickOf(v, o)
	}
	later := o
	later.L0Trigger = s.o.burstTrigger()
	c := s.pickOf(v, later)
	if c == nil && !s.burst.watching && s.pickOf(v, o) != nil {
		s.burst.watching = true
		s.background.Add(1)
		go s.watchBurst(left)
	}
	return c
}

// pickOf is v.Pick for callers that hold mu, and may not panic while they do: a panic of the
// comparer ends all edits, and nothing is picked.
func (s *Scheduler) pickOf(v *manifest.Version, o manifest.PickOptions) (c *manifest.Compaction) {
	defer func() {
		if value := recover(); value != nil {
			err := base.NewPanicError(s.o.Cmp, "the choice of a compaction", value)
			if s.stopErr == nil && !s.closed.Load() {
				s.stopErr = err
				s.cond.Broadcast()
				s.background.Add(1)
				go func() {
					defer s.background.Done()
					s.o.Fail(err)
				}()
			}
		}
	}()
	return v.Pick(o)
}

// watchBurst waits until the burst is over and compacts what has waited for that.
func (s *Scheduler) watchBurst(left time.Duration) {
	defer s.background.Done()
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
