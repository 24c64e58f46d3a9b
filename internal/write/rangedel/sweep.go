package rangedel

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/sievedb/sievedb/internal/disk/manifest"
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
func (d *Deleter) sweepLater(seq uint64, files map[uint64]bool) {
	s := &d.sweeper
	s.mu.Lock()
	defer s.mu.Unlock()
	s.covered = append(s.covered, covered{seq, files})
	if !s.waiting.Swap(true) {
		d.host.Background(d.sweepLoop)
	}
	d.Wake()
}

// Waiting reports whether there are tables that could not be removed yet.
func (d *Deleter) Waiting() bool { return d.sweeper.waiting.Load() }

// Wake looks for tables that can be removed now. It is called when a snapshot is closed and when a
// compaction ends, and does not wait.
func (d *Deleter) Wake() {
	if !d.Waiting() {
		return
	}
	select {
	case d.sweeper.wake <- struct{}{}:
	default:
	}
}

// sweepLoop removes covered tables until there are none, or the store closes.
func (d *Deleter) sweepLoop() {
	for {
		select {
		case <-d.host.Closing():
			return
		case <-d.sweeper.wake:
		}
		if d.sweep() {
			return
		}
	}
}

// sweep removes the covered tables that can be removed, and reports whether there are no others.
// Readers do not notice: the tombstones above the tables hide all of their entries.
func (d *Deleter) sweep() (done bool) {
	s := &d.sweeper
	s.mu.Lock()
	all := s.covered
	s.covered = nil
	s.mu.Unlock()
	oldest, open := d.host.OldestUnpinned()
	var kept []covered
	for _, c := range all {
		if open && oldest < c.seq || !d.remove(c.files) {
			kept = append(kept, c)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.covered = append(kept, s.covered...)
	s.waiting.Store(len(s.covered) > 0)
	return len(s.covered) == 0
}

// remove removes those of the tables that are still there, and reports whether that is all. A table
// that a compaction is merging goes with it.
func (d *Deleter) remove(nums map[uint64]bool) bool {
	busy := false
	v, files, release, err := d.Compactor.Reserve(func(v *manifest.Version) (files []*manifest.FileMeta) {
		v.Files(func(_ int, f *manifest.FileMeta) {
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
	v.Files(func(level int, f *manifest.FileMeta) {
		if slices.Contains(files, f) {
			edit.Deleted = append(edit.Deleted, manifest.DeletedFile{Level: level, Num: f.Num})
		}
	})
	if len(edit.Deleted) == 0 {
		return !busy
	}
	if err := d.host.Drop(edit); err != nil {
		return false // the host has reported it; compactions remove the entries
	}
	return !busy
}
