package share

import (
	"slices"
	"sync"
	"time"

	"github.com/sievedb/sievedb/report"
)

// Urgency says how soon a compaction should have a slot.
type Urgency int

const (
	// Ordinary work makes reads cheaper and frees space.
	Ordinary Urgency = iota
	// Level0 is a compaction of level 0, which grows with each flush.
	Level0
	// Stalled is one that slowed writers wait for.
	Stalled
)

// patience is the number of slots after which one goes to the store that has waited longest, whatever
// it wants to do: so level 0 of busy stores does not starve the deeper levels of others.
const patience = 4

// slotPool is a number of slots. A free slot goes to the store with the most urgent work and, of equal ones, to the one
// that has waited longest. A store waits for one slot at a time and then goes to the end, so stores take turns.
//
// One store never takes all slots while others are open: its compactions may take long, or hang. One that was alone may
// have them all when others are opened; as long as it does, there is one more slot for those.
//
// A slot is reserved for the chosen store at once, which then gets a signal. It uses the slot or gives
// it up. So stores that come later cannot overtake it.
type slotPool struct {
	limit int

	// mu guards the fields below, and those of all Slots.
	mu      sync.Mutex
	stores  int
	used    int      // slots in use or reserved
	hog     *Slots   // the store that uses all slots, nil if there is none
	waiting []*Slots // in the order of their beginning; none that could have a free slot
	granted int
	waits   uint64
	waited  time.Duration
}

// Slots is a store's part of the slots. A nil Slots always has one.
type Slots struct {
	pool   *slotPool
	signal chan struct{}

	used     int
	reserved bool
	waiting  bool
	urgency  Urgency
	since    time.Time
	gone     bool
}

func (p *slotPool) join() *Slots {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stores++
	return &Slots{pool: p, signal: make(chan struct{}, 1)}
}

// allowsLocked reports whether a store may have one more slot.
func (p *slotPool) allowsLocked(s *Slots) bool {
	if p.hog != nil && p.hog != s && p.limit > 1 && p.used == p.hog.used {
		return true
	}
	return p.used < p.limit && (p.limit == 1 || p.stores == 1 || s.used < p.limit-1)
}

// Signal returns the channel on which the store learns that a slot is reserved for it. For a nil Slots it is nil.
func (s *Slots) Signal() <-chan struct{} {
	if s == nil {
		return nil
	}
	return s.signal
}

// Want reports whether a slot is reserved for the store. If none is, it will be, and Signal says so;
// a later call may change the urgency. The store calls Use or Forgo.
func (s *Slots) Want(u Urgency) bool {
	if s == nil {
		return true
	}
	p := s.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case s.gone || s.reserved:
		return s.reserved
	case p.allowsLocked(s):
		s.reserved = true
		p.used++
		return true
	case !s.waiting:
		s.waiting, s.since = true, time.Now()
		p.waiting = append(p.waiting, s)
	}
	s.urgency = u
	return false
}

// Use begins to use the slot that is reserved, or one more than there are: for the end of work that has begun.
func (s *Slots) Use() {
	if s == nil {
		return
	}
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	if s.gone {
		return
	}
	if !s.reserved {
		s.pool.used++
	}
	s.reserved = false
	s.used++
	if s.used >= s.pool.limit {
		s.pool.hog = s
		s.pool.grantLocked()
	}
}

// Free ends the use of a slot.
func (s *Slots) Free() {
	if s == nil {
		return
	}
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	if s.used > 0 {
		s.used--
		s.pool.used--
		s.pool.noHogLocked(s)
		s.pool.grantLocked()
	}
}

// Forgo gives up a reserved slot, and the wait for one.
func (s *Slots) Forgo() {
	if s == nil {
		return
	}
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	s.forgoLocked()
}

func (s *Slots) forgoLocked() {
	p := s.pool
	if s.waiting {
		s.waiting = false
		p.waiting = slices.DeleteFunc(p.waiting, func(other *Slots) bool { return other == s })
	}
	if s.reserved {
		s.reserved = false
		p.used--
		p.grantLocked()
	}
}

// leave returns all slots of the store.
func (s *Slots) leave() {
	p := s.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	s.forgoLocked()
	s.gone = true
	p.used -= s.used
	s.used = 0
	p.noHogLocked(s)
	p.stores--
	p.grantLocked()
}

// noHogLocked notes that a store does not use all slots any more.
func (p *slotPool) noHogLocked(s *Slots) {
	if p.hog == s && s.used < p.limit {
		p.hog = nil
	}
}

// grantLocked reserves free slots for stores that wait.
func (p *slotPool) grantLocked() {
	for s := p.nextLocked(); s != nil; s = p.nextLocked() {
		p.waiting = slices.DeleteFunc(p.waiting, func(other *Slots) bool { return other == s })
		s.waiting, s.reserved = false, true
		p.used++
		p.granted++
		p.waits++
		p.waited += time.Since(s.since)
		select {
		case s.signal <- struct{}{}:
		default:
		}
	}
}

// nextLocked returns the store that gets the next free slot, nil if none can.
func (p *slotPool) nextLocked() (next *Slots) {
	byAge := p.granted%patience == patience-1
	for _, s := range p.waiting {
		if p.allowsLocked(s) && (next == nil || !byAge && s.urgency > next.urgency) {
			next = s
		}
	}
	return next
}

func (p *slotPool) metrics() report.SharedSlots {
	p.mu.Lock()
	defer p.mu.Unlock()
	return report.SharedSlots{Limit: p.limit, Used: p.used, Waiting: len(p.waiting), Waits: p.waits, Waited: p.waited}
}
