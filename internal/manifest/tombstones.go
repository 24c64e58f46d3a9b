package manifest

import "github.com/sievedb/sievedb/internal/base"

// TableCounts are how many entries a table has, how many of them are tombstones, and the
// largest sequence number among them.
type TableCounts struct {
	Entries, Tombstones, LargestSeq uint64
}

// heavy reports whether at least a third of the entries are tombstones. A table may
// claim anything.
func (c *TableCounts) heavy() bool {
	return c != nil && c.Tombstones > 0 && c.Tombstones <= c.Entries && c.Tombstones >= c.Entries/3
}

// A compaction for the sake of tombstones alone must free so much: a fifth of what it
// reads, since a store may take a quarter more than what lives in it, and a part of a
// table's size, since a small store has time.
const (
	tombstoneCost  = 5
	tombstoneLeast = 8
)

// unknownEntryBytes is what an entry takes in a table whose entries are not counted.
const unknownEntryBytes = 64

// pickTombstones returns the compaction that frees most for what it reads of a table in which
// tombstones abound, or nil. Nothing is picked for ever: a table goes down a
// level, or, where nothing is below it, is rewritten only once no snapshot can hold
// its tombstones, which are gone then.
func (v *Version) pickTombstones(s Shape, o PickOptions) *Compaction {
	var best *Compaction
	bestGain := 0.0
	for level := range v.Levels {
		for _, f := range v.Levels[level].Files {
			counts := f.Counts.Load()
			if f.Compacting || !counts.heavy() {
				continue
			}
			freed, read := v.freedBy(level, f, counts, o)
			gain := float64(freed) / float64(max(read, 1))
			if freed < o.TableSize/tombstoneLeast || gain*tombstoneCost < 1 || gain <= bestGain {
				continue
			}
			output := level + 1
			switch {
			case level == 0:
				output = s.BaseLevel
			case read == f.Size:
				output = level
			}
			if c := v.build(level, output, []*FileMeta{f}, "tombstones abound", o); c != nil {
				best, bestGain = c, gain
			}
		}
	}
	return best
}

// freedBy estimates the bytes that merging f with all that lies below it would free, 0 if
// nothing would be, and those that are to be read for that: no more than f where
// nothing lies below.
func (v *Version) freedBy(level int, f *FileMeta, counts *TableCounts, o PickOptions) (freed, read uint64) {
	var below, counted, entries uint64
	for l := level + 1; l < NumLevels; l++ {
		for _, other := range v.Overlapping(l, base.UserKey(f.Smallest), base.UserKey(f.Largest)) {
			below += other.Size
			if c := other.Counts.Load(); c != nil && c.Entries > 0 {
				counted, entries = counted+other.Size, entries+c.Entries
			}
		}
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
