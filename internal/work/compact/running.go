package compact

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/pick"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/report"
)

// work is what uses tables or makes them. Scheduler.mu guards it.
type work struct {
	running  []*pick.Compaction             // including manual ones, in the order of their beginning
	progress map[*pick.Compaction]*progress // of running
	// automatic is the number of running compactions that no caller asked for.
	automatic int
	reserved  int // reservations in effect; see Reserve
	// claimed are the tables that are reserved or set aside: they are Compacting, and no running compaction has them.
	claimed  []*version.FileMeta
	flushing bool // see BeginFlush
}

// begin claims the inputs of c.
func (w *work) begin(c *pick.Compaction) {
	for _, f := range c.AllInputs() {
		f.Compacting = true
	}
	w.running = append(w.running, c)
	w.progress[c] = &progress{began: time.Now()}
}

// end releases the inputs of c, except for those that are to stay claimed.
func (w *work) end(c *pick.Compaction, claimed []*version.FileMeta) {
	for _, f := range c.AllInputs() {
		f.Compacting = false
	}
	for _, f := range claimed {
		f.Compacting = true
	}
	w.claimed = append(w.claimed, claimed...)
	w.running = slices.DeleteFunc(w.running, func(r *pick.Compaction) bool { return r == c })
	delete(w.progress, c)
}

// claims reports whether tables are claimed that will be released. Others are set aside.
func (w *work) claims() bool { return len(w.running) > 0 || w.reserved > 0 }

// progress is what a running compaction has done.
type progress struct {
	began         time.Time
	read, written atomic.Uint64
}

// Running returns the compactions that are running, in the order in which they began.
func (s *Scheduler) Running() []report.RunningCompaction {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []report.RunningCompaction
	for _, c := range s.work.running {
		p := s.work.progress[c]
		all = append(all, report.RunningCompaction{
			Reason: c.Reason, InputLevel: c.Level, OutputLevel: c.OutputLevel,
			InputTables: len(c.Inputs) + len(c.Overlaps), InputBytes: c.InputBytes(),
			BytesRead: p.read.Load(), BytesWritten: p.written.Load(), Duration: time.Since(p.began),
		})
	}
	return all
}

// progressOf returns the progress of a compaction that has begun.
func (s *Scheduler) progressOf(c *pick.Compaction) *progress {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.work.progress[c]
}

// BeginFlush must be called before a new table of level 0 gets its number, and EndFlush after it is in the current
// version or abandoned. In between, no table of level 0 gets another number.
func (s *Scheduler) BeginFlush() { s.setFlushing(true) }

// EndFlush ends the period that BeginFlush began.
func (s *Scheduler) EndFlush() { s.setFlushing(false) }

func (s *Scheduler) setFlushing(flushing bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.work.flushing = flushing
	s.cond.Broadcast()
}

// Reserve claims the tables that pick chooses in the current version, none of which may be Compacting, until release is
// called. It returns a reference to the version. Wait waits for the release.
func (s *Scheduler) Reserve(pick func(*version.Version) []*version.FileMeta) (v *version.Version, files []*version.FileMeta, release func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state.isClosed() {
		return nil, nil, nil, base.ErrClosed
	}
	v = s.host.RefVersion()
	files = pick(v)
	s.background.Add(1)
	s.work.reserved++
	for _, f := range files {
		f.Compacting = true
	}
	s.work.claimed = append(s.work.claimed, files...)
	return v, files, sync.OnceFunc(func() { s.unreserve(files) }), nil
}

func (s *Scheduler) unreserve(files []*version.FileMeta) {
	defer s.background.Done()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range files {
		f.Compacting = false
	}
	s.work.claimed = slices.DeleteFunc(s.work.claimed, func(f *version.FileMeta) bool { return !f.Compacting })
	s.work.reserved--
	s.cond.Broadcast()
	s.scheduleLocked()
}

// automaticEnded records that a compaction that no caller asked for has ended.
func (s *Scheduler) automaticEnded() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.work.automatic--
	s.cond.Broadcast()
}
