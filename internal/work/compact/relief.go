package compact

import (
	"time"

	"github.com/sievedb/sievedb/internal/disk/pick"
)

// relief is for iterators that step over many tombstones in memtables and in level 0: one compaction of level 0 does
// not wait for more tables. Scheduler.mu guards it.
type relief struct {
	due     bool             // the next compaction of level 0 is one
	running *pick.Compaction // the one that runs
	began   time.Time        // when the last one began
	next    time.Time        // no other one before that
}

const (
	// reliefPause is the least time from the beginning of one such compaction to that of the next.
	reliefPause = time.Second / 2
	// reliefShare is the largest share of the time that they may take, as a divisor: one rewrites the base level if the
	// deleted keys are all over it.
	reliefShare = 4
)

// CanRelieve reports whether Relieve would make a compaction begin.
func (s *Scheduler) CanRelieve() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := &s.relief
	return s.state.mode() == modeFree && !r.due && r.running == nil && !time.Now().Before(r.next)
}

// Relieve makes the next compaction of level 0 due as soon as there is a table. Schedule starts it.
func (s *Scheduler) Relieve() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.relief.due = true
}

// begin is called when a compaction begins.
func (r *relief) begin(c *pick.Compaction) {
	if r.due && c.Level == 0 {
		r.due, r.running, r.began = false, c, time.Now()
	}
}

// end is called when a compaction has ended.
func (r *relief) end(c *pick.Compaction, err error) {
	if c != r.running {
		return
	}
	r.running, r.due = nil, err != nil
	r.next = r.began.Add(max(reliefPause, reliefShare*time.Since(r.began)))
}
