package manifest

import (
	"cmp"

	"github.com/sievedb/sievedb/internal/base"
)

// TableCounts has the number of a table's entries, the number of tombstones among them, and the
// tombstones' largest sequence number. Expiry is when the last value of the table expires, 0 if
// one does not, and ExpiryKeys identifies the keys whose values could expire when it was written.
type TableCounts struct {
	Entries, Tombstones, LargestSeq uint64
	Expiry, ExpiryKeys              uint64
}

// heavy reports whether at least a third of the entries are tombstones. The counts come from a file
// and may be inconsistent.
func (c *TableCounts) heavy() bool {
	return c != nil && c.Tombstones > 0 && c.Tombstones <= c.Entries && c.Tombstones >= c.Entries/3
}

// The minimum benefit of a compaction for tombstones alone. It must free a fifth of the bytes that it
// reads, because a store may use a quarter more than its live data, and a part of a table's size,
// because a small store has time.
const (
	tombstoneCost  = 5
	tombstoneLeast = 8
)

// unknownEntryBytes is the assumed size of an entry in a table whose entries are not counted.
const unknownEntryBytes = 64

// pickTombstones returns the compaction of a table with many tombstones that frees most in proportion
// to the bytes read, or nil; of equal ones, the first by level and number. It does not pick the same table forever: a table moves down a level or,
// on the last one, is rewritten only when no snapshot needs its tombstones, which then disappear.
func (v *Version) pickTombstones(s Shape, o PickOptions) *Compaction {
	var best *Compaction
	var bestTable LevelFile
	bestGain := 0.0
	if v.set == nil {
		return nil
	}
	for _, heavy := range v.set.noted.heavyIn(v) {
		level, f := heavy.Level, heavy.File
		counts := f.Counts.Load()
		if f.Compacting || !counts.heavy() || level == 0 && o.InBurst {
			continue
		}
		freed, read := v.freedBy(level, f, counts, o)
		gain := float64(freed) / float64(max(read, 1))
		if !o.worthIt(freed, read) || gain < bestGain {
			continue
		}
		if best != nil && gain == bestGain && compareTables(heavy, bestTable) > 0 {
			continue
		}
		output := level + 1
		switch {
		case level == 0:
			output = s.BaseLevel
		case read == f.Size:
			output = level
		}
		if c := v.build(level, output, []*FileMeta{f}, "too many tombstones", o); c != nil {
			best, bestTable, bestGain = c, heavy, gain
		}
	}
	return best
}

// compareTables compares tables by level and number.
func compareTables(a, b LevelFile) int {
	return cmp.Or(cmp.Compare(a.Level, b.Level), cmp.Compare(a.File.Num, b.File.Num))
}

// worthIt reports whether a compaction for tombstones alone may read that much to free that much.
func (o PickOptions) worthIt(freed, read uint64) bool {
	return freed >= o.leastTableSize()/tombstoneLeast && float64(freed)*tombstoneCost >= float64(read)
}

// Frees reports whether f, a table that would be new in level 0, would be compacted for its tombstones, with tables that
// have what they delete. learn is called first for the tables by which that is judged, whose contents may be unknown.
func (v *Version) Frees(f *FileMeta, o PickOptions, learn func(*FileMeta)) bool {
	counts := f.Counts.Load()
	if !counts.heavy() {
		return false
	}
	for l := 1; l < NumLevels; l++ {
		files := v.Overlapping(l, base.UserKey(f.Smallest), base.UserKey(f.Largest))
		for i, n := 0, min(len(files), freedSample); i < n; i++ {
			learn(files[i*len(files)/n])
		}
	}
	freed, read := v.freedBy(0, f, counts, o)
	return read > f.Size && o.worthIt(freed, read)
}

// freedSample is the number of tables of a level from which freedBy estimates their entries. A table of
// level 0 may overlap all tables below.
const freedSample = 64

// freedBy estimates the bytes that merging f with all overlapping tables below would free, 0 if there
// is no benefit, and the bytes to read for that: only those of f if there is no table below.
func (v *Version) freedBy(level int, f *FileMeta, counts *TableCounts, o PickOptions) (freed, read uint64) {
	var below, counted, entries uint64
	for l := level + 1; l < NumLevels; l++ {
		files := v.Overlapping(l, base.UserKey(f.Smallest), base.UserKey(f.Largest))
		n, size := min(len(files), freedSample), uint64(0)
		for i := range n {
			other := files[i*len(files)/n]
			size += other.Size
			if c := other.Counts.Load(); c != nil && c.Entries > 0 {
				counted, entries = counted+other.Size, entries+c.Entries
			}
		}
		if n < len(files) {
			size = uint64(float64(size) / float64(n) * float64(len(files)))
		}
		below += size
	}
	own := uint64(float64(f.Size) / float64(counts.Entries) * float64(counts.Tombstones))
	switch {
	case below == 0 && counts.LargestSeq <= o.OldestReader:
		return own, f.Size
	case below == 0:
		return 0, f.Size
	}
	perEntry := float64(unknownEntryBytes)
	if entries > 0 {
		perEntry = float64(counted) / float64(entries)
	}
	return own + min(below, uint64(perEntry*float64(counts.Tombstones))), f.Size + below
}
