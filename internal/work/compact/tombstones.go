package compact

import (
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/memtable"
)

// WouldFree reports whether a flush of mem makes a compaction due that frees what its tombstones delete. It may open
// tables. While compactions are paused, or the store takes no edits, it reports false.
func (s *Scheduler) WouldFree(mem *memtable.Memtable) bool {
	f := &manifest.FileMeta{Size: uint64(mem.Size())}
	it := mem.NewIter()
	if !it.First() {
		return false
	}
	f.Smallest = it.Key()
	it.Last()
	f.Largest = it.Key()
	f.Counts.Store(&manifest.TableCounts{
		Entries: uint64(mem.Len()), Tombstones: uint64(mem.Tombstones()), LargestSeq: base.MaxSeq,
	})
	s.mu.Lock()
	free, o := s.state.mode() == modeFree, s.pickOptions()
	s.mu.Unlock()
	if !free {
		return false
	}
	v := s.host.RefVersion()
	defer v.Unref()
	return v.Frees(f, o, s.o.Cache.LearnCounts)
}
