package compact

import (
	"time"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/pick"
	"github.com/sievedb/sievedb/internal/disk/version"
)

// A table whose values have all expired is removed without being read, if no older entries of its
// keys are left elsewhere (pick.Options.Expired). The Scheduler looks for such tables
// whenever it looks for a compaction, and WatchExpiry makes it look when a table expires.

// expired returns Expired and ExpiredBy for PickOptions, zero if nothing expires. s.mu is held.
func (s *Scheduler) expired() (expired func(*version.FileMeta) bool, by uint64) {
	if s.o.Expiry == nil {
		return nil, 0
	}
	hidden := s.host.OldestTime()
	return func(f *version.FileMeta) bool {
		at, ok := s.expiryOf(f)
		return ok && at <= hidden
	}, hidden
}

// expiryOf returns when the last value of f expires. ok is false if that is unknown or never. The
// time in the table counts only if all its keys are still under the prefixes.
func (s *Scheduler) expiryOf(f *version.FileMeta) (at uint64, ok bool) {
	c := f.Counts()
	if c == nil || c.Expiry == 0 {
		return 0, false
	}
	e := s.o.Expiry
	ok = c.ExpiryKeys == e.Sum() ||
		s.o.Cmp.IsBytewise() && e.CoversRange(base.UserKey(f.Smallest), base.UserKey(f.Largest))
	return c.Expiry, ok
}

// The time between two looks at the clock, which may jump.
const (
	shortestWatch = 100 * time.Millisecond
	longestWatch  = 10 * time.Second
)

// WatchExpiry starts a goroutine that schedules the removal of tables soon after all their values
// have expired. The Scheduler must be open. Without Options.Expiry it does nothing.
func (s *Scheduler) WatchExpiry() {
	if s.o.Expiry == nil || s.o.ReadOnly {
		return
	}
	base.GoIn(&s.background, func() {
		_ = s.o.Guard("a look for expired tables", func() error { s.watchExpiry(); return nil })
	})
}

func (s *Scheduler) watchExpiry() {
	s.learnExpiry()
	for {
		s.weighExpiring()
		s.Schedule()
		if !s.pause(s.nextWatch()) {
			return
		}
	}
}

// learnExpiry reads the properties of all tables. Those that are written later are known.
func (s *Scheduler) learnExpiry() {
	v := s.host.RefVersion()
	defer v.Unref()
	v.Files(func(_ int, f *version.FileMeta) {
		if !s.state.isClosed() {
			s.o.Cache.LearnCounts(f)
		}
	})
}

// weighExpiring finds out when half of each table with values that expire has done so. One whose values have all
// expired goes without being read.
func (s *Scheduler) weighExpiring() {
	v := s.host.RefVersion()
	defer v.Unref()
	left, least := mostWeighed, pick.Options{TableSize: s.tuning.Load().TableSize}.LeastFreed()
	v.Files(func(level int, f *version.FileMeta) {
		c := f.Counts()
		if c == nil || c.ExpiryKeys == 0 || f.Holds() < 2*least || f.Gain() != nil || left == 0 || s.state.isClosed() {
			return
		}
		if at, ok := s.expiryOf(f); ok && at <= s.o.Expiry.Now() {
			return
		}
		s.weigh(v, level, f)
		left--
	})
}

// mostWeighed bounds the tables that are weighed at a time.
const mostWeighed = 64

// nextWatch returns how long to wait until a table expires.
func (s *Scheduler) nextWatch() time.Duration {
	v := s.host.RefVersion()
	defer v.Unref()
	now, wait := s.o.Expiry.Now(), longestWatch
	v.Files(func(_ int, f *version.FileMeta) {
		if at, ok := s.expiryOf(f); ok && at > now && at-now < uint64(longestWatch/time.Millisecond) {
			wait = min(wait, time.Duration(at-now)*time.Millisecond)
		}
	})
	return max(wait, shortestWatch)
}
