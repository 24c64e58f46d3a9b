package compact

import (
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/memtable"
)

// WouldFree reports whether a flush of mem makes a compaction due that frees what its tombstones delete. It may open
// tables. known is false while no compaction may begin, but one may later: in a pause, a hold, or after a failure.
func (s *Scheduler) WouldFree(mem *memtable.Memtable) (frees, known bool) {
	s.mu.Lock()
	mode, o := s.state.mode(), s.pickOptions()
	s.mu.Unlock()
	if mode != modeFree {
		return false, mode >= modeStopped
	}
	f := &manifest.FileMeta{Size: uint64(mem.Size())}
	it := mem.NewIter()
	if !it.First() {
		return false, true
	}
	f.Smallest = it.Key()
	it.Last()
	f.Largest = it.Key()
	f.Counts.Store(&manifest.TableCounts{
		Entries: uint64(mem.Len()), Tombstones: uint64(mem.Tombstones()), LargestSeq: base.MaxSeq,
	})
	v := s.host.RefVersion()
	defer v.Unref()
	return v.Frees(f, o, s.o.Cache.LearnCounts), true
}
