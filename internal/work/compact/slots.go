package compact

import (
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/pick"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/internal/limit/share"
)

// A compaction, a piece of one, and a step of an upgrade use a slot of Tuning.MaxConcurrent. If stores
// share slots (Options.Slots), each needs one of those as well, except for the work after a merge, in
// which it only waits or applies an edit. The Scheduler asks for a shared slot once it has something
// to do. If none is free, it continues when WatchSlots gets the signal, and chooses again then. A slot
// that was reserved meanwhile is given up whenever nothing is left to do.

// slots are those of a Scheduler. Scheduler.mu guards them.
type slots struct {
	shared   *share.Slots // Options.Slots
	used     int          // of MaxConcurrent
	claimers int          // goroutines that wait in claim for one
}

// take counts a slot as used, even if all are.
func (s *slots) take() {
	s.used++
	s.shared.Use()
}

func (s *slots) free() {
	s.used--
	s.shared.Free()
}

// slotFreeLocked reports whether there is a slot for a caller of claim.
func (s *Scheduler) slotFreeLocked() bool {
	if s.slots.used >= s.tuning.Load().MaxConcurrent {
		s.slots.shared.Forgo()
		return false
	}
	if s.slots.shared == nil {
		return true
	}
	v := s.host.RefVersion()
	defer v.Unref()
	return s.slots.shared.Want(s.urgencyIn(v, share.Ordinary))
}

// wantSlotLocked reports whether there is a shared slot for c or, if c is nil, for a piece of a running
// compaction. If there is none, it releases c.
func (s *Scheduler) wantSlotLocked(c *pick.Compaction) bool {
	if s.slots.shared == nil {
		return true
	}
	level := version.NumLevels
	for _, j := range s.jobs {
		level = min(level, j.c.Level)
	}
	if c != nil {
		level = c.Level
	}
	urgency := share.Ordinary
	if level == 0 {
		urgency = share.Level0
	}
	v := s.host.RefVersion()
	defer v.Unref()
	if s.slots.shared.Want(s.urgencyIn(v, urgency)) {
		return true
	}
	if c != nil {
		c.Version.Unref()
	}
	return false
}

// urgencyIn returns least or, if level 0 of v slows writers, Stalled. Whatever the store does then, it
// does before that, or instead of it.
func (s *Scheduler) urgencyIn(v *version.Version, least share.Urgency) share.Urgency {
	if len(v.Levels[0].Files) >= s.tuning.Load().L0SlowdownTrigger {
		return share.Stalled
	}
	return least
}

// WatchSlots starts a goroutine that continues work for which a shared slot is free again. The
// Scheduler must be open. Without Options.Slots it does nothing.
func (s *Scheduler) WatchSlots() {
	if s.slots.shared == nil || s.o.ReadOnly {
		return
	}
	base.GoIn(&s.background, func() {
		_ = s.o.Guard("the start of a compaction", func() error { s.watchSlots(); return nil })
		s.slots.shared.Forgo() // also if the user's clock panics: the others continue
	})
}

func (s *Scheduler) watchSlots() {
	for {
		select {
		case <-s.slots.shared.Signal():
			s.wake() // callers of claim, who come first
			s.Schedule()
		case <-s.state.closing:
			return
		}
	}
}
