package compact

import (
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/memtable"
	"github.com/sievedb/sievedb/sstable"
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
	f := flushed(mem)
	if f == nil {
		return false, true
	}
	v := s.host.RefVersion()
	defer v.Unref()
	if !v.Frees(f, o, s.o.Cache.LearnCounts) {
		return false, true
	}
	s.leaveOut(v, mem, f)
	return v.Frees(f, o, s.o.Cache.LearnCounts), true
}

// flushed returns about the table that a flush of mem would write, if each entry had another key. It is nil if mem is
// empty.
func flushed(mem *memtable.Memtable) *manifest.FileMeta {
	it := mem.NewIter()
	if !it.First() {
		return nil
	}
	f := &manifest.FileMeta{Size: uint64(mem.Size()), Smallest: it.Key()}
	it.Last()
	f.Largest = it.Key()
	f.Counts.Store(&manifest.TableCounts{
		Entries: uint64(mem.Len()), Tombstones: uint64(mem.Tombstones()), LargestSeq: base.MaxSeq,
	})
	return f
}

// tombstoneSample is about the number of tombstones that are looked up.
const tombstoneSample = 256

// leaveOut corrects the size and the counts of f, which flushed has returned for mem: it leaves out entries that newer
// ones hide, and tombstones of keys that no table of v has, because they were deleted again, or soon after they were put.
func (s *Scheduler) leaveOut(v *manifest.Version, mem *memtable.Memtable, f *manifest.FileMeta) {
	c := *f.Counts.Load()
	every := c.Tombstones/tombstoneSample + 1
	var size, entries, tombstones, sampled, present uint64
	var last []byte
	for ikey, value := range mem.All() {
		user := base.UserKey(ikey)
		if last != nil && s.o.Cmp.Compare(last, user) == 0 {
			continue
		}
		last = user
		size += uint64(len(ikey) + len(value))
		entries++
		if _, kind := base.SplitTrailer(base.Trailer(ikey)); kind != base.KindDelete {
			continue
		}
		if tombstones++; tombstones%every == 0 {
			sampled++
			if s.mayHold(v, user) {
				present++
			}
		}
	}
	c.Tombstones = tombstones
	if sampled > 0 {
		c.Tombstones = tombstones * present / sampled
	}
	c.Entries = entries - tombstones + c.Tombstones
	f.Size = size
	f.Counts.Store(&c)
}

// mayHold reports whether a table of v may have the key.
func (s *Scheduler) mayHold(v *manifest.Version, key []byte) bool {
	var lookup sstable.Lookup
	defer lookup.Release()
	lookup.Init(key, base.MaxSeq)
	for _, f := range v.MayHold(key) {
		r, err := s.o.Cache.Ref(f)
		if err != nil {
			return true // operations that need the table report the error
		}
		denied := r.Denies(&lookup)
		r.Unref()
		if !denied {
			return true
		}
	}
	return false
}
