package tables

import (
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/sstable"
)

// Runs are the iterators over those tables of a version that may contain keys within bounds: one for each table of
// level 0, and one for each level below. The zero value is empty, and reuses its memory once it is cleared.
type Runs struct {
	levels  []LevelIter
	options sstable.IterOptions // of all levels
}

// RunOptions say which runs Runs.Add adds, and how they read.
type RunOptions struct {
	// Lower and Upper are those of sstable.IterOptions.
	Lower, Upper []byte
	// NoFillCache and KeysOnly are those of sstable.IterOptions.
	NoFillCache, KeysOnly bool
	// CacheSize is the size of the block cache, in bytes.
	CacheSize int64
	// Ranges returns where the results of range filters are counted.
	Ranges RangeCounts
}

// RangeCounts returns the counters for a level, nil if range filters are not used within the bounds.
type RangeCounts interface {
	ForBounds(level int, lower, upper []byte) *RangeCounters
}

// Add adds the runs of v to m. Nothing is read before m moves. r must be empty.
func (r *Runs) Add(m *MergingIter, c *Cache, v *version.Version, o *RunOptions) {
	r.options = sstable.IterOptions{NoFillCache: o.NoFillCache, KeysOnly: o.KeysOnly, Lower: o.Lower, Upper: o.Upper}
	reach := reach{most: o.CacheSize / 2}
	level0 := v.Levels[0].Files
	if n := mostRuns(v); cap(r.levels) < n { // elements in use must not move
		r.levels = make([]LevelIter, 0, n)
	}
	add := func(level int, files []*version.FileMeta) {
		n := len(r.levels)
		r.levels = r.levels[:n+1]
		r.levels[n].Init(c, v.Cmp, files, &r.options)
		if o.Lower != nil && o.Upper != nil {
			r.levels[n].AskRanges(o.Ranges.ForBounds(level, o.Lower, o.Upper))
		}
		m.Add(&r.levels[n])
		reach.add(&v.Levels[level], files)
	}
	for i, f := range level0 {
		if o.meets(v.Cmp, f) {
			add(0, level0[i:i+1])
		}
	}
	for level := 1; level < version.NumLevels; level++ {
		if len(v.Levels[level].Files) == 0 {
			continue // most levels of most stores
		}
		if files := v.Within(level, o.Lower, o.Upper); len(files) > 0 {
			add(level, files)
			if o.Lower == nil { // then the iterator begins where the level does
				r.levels[len(r.levels)-1].SetLevel(&v.Levels[level])
			}
		}
	}
	if reach.bytes > reach.most {
		r.options.MaxCached = o.CacheSize / KeptShare
	}
}

// mostRuns returns the number of runs of v. An iterator over one has 672 bytes, and programs hold thousands
// of iterators, so there is none for an empty level.
func mostRuns(v *version.Version) int {
	n := len(v.Levels[0].Files)
	for level := 1; level < version.NumLevels; level++ {
		if len(v.Levels[level].Files) > 0 {
			n++
		}
	}
	return n
}

// Clear removes the runs, which must be closed.
func (r *Runs) Clear() { r.levels, r.options = r.levels[:0], sstable.IterOptions{} }

// KeptShare is the part of the block cache, as stored, that a walk fills if the cache cannot hold everything within its
// bounds: the beginning of a walk is the most likely to be read again. To fill an empty place in the cache costs more
// than to read and decode the block from the system's cache.
const KeptShare = 16

// reach is the number of bytes of tables that a walk may read. Counting stops once it exceeds
// most, because the callers only ask whether it does.
type reach struct{ bytes, most int64 }

// add counts files, which are all files of the level or some of them.
func (r *reach) add(level *version.Level, files []*version.FileMeta) {
	if len(files) == len(level.Files) {
		r.bytes += int64(level.Bytes)
		return
	}
	for i := 0; i < len(files) && r.bytes <= r.most; i++ {
		r.bytes += int64(files[i].Size)
	}
}

// meets reports whether f may contain keys within the bounds.
func (o *RunOptions) meets(cmp *base.Comparer, f *version.FileMeta) bool {
	return f.OverlapsUser(cmp, o.Lower, o.Upper) &&
		(o.Upper == nil || cmp.Compare(base.UserKey(f.Smallest), o.Upper) < 0)
}
