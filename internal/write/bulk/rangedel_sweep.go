package bulk

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/disk/version"
)

// sweeper has the tables that are covered by tombstones but had to stay.
type sweeper struct {
	wake    chan struct{}
	waiting atomic.Bool // there are covered tables

	mu      sync.Mutex
	covered []covered
}

// covered are tables that no snapshot at seq or above needs.
type covered struct {
	seq   uint64
	files map[uint64]bool // by number
}

// sweepLater removes tables once no snapshot below seq is open. Only the leader calls it.
func (c *Coordinator) sweepLater(seq uint64, files map[uint64]bool) {
	s := &c.sweeper
	s.mu.Lock()
	defer s.mu.Unlock()
	s.covered = append(s.covered, covered{seq, files})
	if !s.waiting.Swap(true) {
		c.Background(c.sweepLoop)
	}
	c.Wake()
}

// Waiting reports whether there are tables that could not be removed yet.
func (c *Coordinator) Waiting() bool { return c.sweeper.waiting.Load() }

// Wake looks for tables that can be removed now. It is called when a snapshot is closed and when a
// compaction ends, and does not wait.
func (c *Coordinator) Wake() {
	if !c.Waiting() {
		return
	}
	select {
	case c.sweeper.wake <- struct{}{}:
	default:
	}
}

// sweepLoop removes covered tables until there are none, or the store closes.
func (c *Coordinator) sweepLoop() {
	for {
		select {
		case <-c.Closing:
			return
		case <-c.sweeper.wake:
		}
		if c.sweep() {
			return
		}
	}
}

// sweep removes the covered tables that can be removed, and reports whether there are no others.
// Readers do not notice: the tombstones above the tables hide all of their entries.
func (c *Coordinator) sweep() (done bool) {
	s := &c.sweeper
	s.mu.Lock()
	all := s.covered
	s.covered = nil
	s.mu.Unlock()
	oldest, open := c.Snapshots.OldestUnpinned()
	var kept []covered
	for _, old := range all {
		if open && oldest < old.seq || !c.removeCovered(old.files) {
			kept = append(kept, old)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.covered = append(kept, s.covered...)
	s.waiting.Store(len(s.covered) > 0)
	return len(s.covered) == 0
}

// removeCovered removes those of the tables that are still there, and reports whether that is all. A table
// that a compaction is merging goes with it.
func (c *Coordinator) removeCovered(nums map[uint64]bool) bool {
	busy := false
	v, files, release, err := c.Compactor.Reserve(func(v *version.Version) (files []*version.FileMeta) {
		v.Files(func(_ int, f *version.FileMeta) {
			if !nums[f.Num] {
				return
			}
			if f.Compacting {
				busy = true
				return
			}
			files = append(files, f)
		})
		return files
	})
	if err != nil {
		return false // the store closes
	}
	defer release()
	defer v.Unref()
	edit := &manifest.Edit{}
	v.Files(func(level int, f *version.FileMeta) {
		if slices.Contains(files, f) {
			edit.Deleted = append(edit.Deleted, version.DeletedFile{Level: level, Num: f.Num})
		}
	})
	if len(edit.Deleted) == 0 {
		return !busy
	}
	if err := c.Apply(edit, nil, nil); err != nil {
		c.Dir.Logger.Warn("tables of a deleted range stay until they are compacted", "err", err)
		return false
	}
	return !busy
}
