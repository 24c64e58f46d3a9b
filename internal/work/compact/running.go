package compact

import (
	"sync/atomic"
	"time"

	"github.com/sievedb/sievedb/internal/disk/manifest"
)

// Running describes a compaction that has begun and not ended.
type Running struct {
	Reason                  string
	InputLevel, OutputLevel int
	InputTables             int
	InputBytes              uint64
	// BytesRead and BytesWritten are those of finished steps of 64 KiB of entries.
	BytesRead, BytesWritten uint64
	Duration                time.Duration // so far
}

// progress is what a running compaction has done.
type progress struct {
	began         time.Time
	read, written atomic.Uint64
}

// Running returns the compactions that are running, in the order in which they began.
func (s *Scheduler) Running() []Running {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []Running
	for _, c := range s.running {
		r := Running{
			Reason: c.Reason, InputLevel: c.Level, OutputLevel: c.OutputLevel,
			InputTables: len(c.Inputs) + len(c.Overlaps), InputBytes: c.InputBytes(),
		}
		if p := s.progress[c]; p != nil {
			r.BytesRead, r.BytesWritten, r.Duration = p.read.Load(), p.written.Load(), time.Since(p.began)
		}
		all = append(all, r)
	}
	return all
}

// progressOf returns the progress of a compaction, a new one if the Scheduler did not start it.
func (s *Scheduler) progressOf(c *manifest.Compaction) *progress {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.progress[c]; p != nil {
		return p
	}
	return new(progress)
}
