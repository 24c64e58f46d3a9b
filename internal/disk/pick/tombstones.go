package pick

import (
	"cmp"

	"github.com/sievedb/sievedb/internal/disk/version"
)

// freedLeast is the part of a table's size, as a divisor, that a compaction must free that only frees space, because a
// small store has time. See version.FreedCost too. Values apart from their keys count as read, because a collection
// copies those that stay.
const freedLeast = 8

// unknownEntryBytes is the assumed size of an entry in a table whose entries are not counted.
const unknownEntryBytes = 64

// mayFree returns the tables that are considered: those with many tombstones or older entries or values that have
// expired and, in quiet, all above the last level, whose entries may hide much larger ones.
func (v Picker) mayFree(o Options) []version.LevelFile {
	files := v.Heavy()
	if o.ExpiredBy > 0 {
		files = append(files, v.Expiring(o.ExpiredBy)...)
	}
	if !o.Quiet {
		return files
	}
	for level, last := 0, v.LastLevel(); level < last; level++ {
		for _, f := range v.Levels[level].Files {
			if c := f.Counts(); !c.Heavy() && (c != nil || v.knowable(level)) {
				files = append(files, version.LevelFile{Level: level, File: f})
			}
		}
	}
	return files
}

// knowable reports whether a level has so few tables that they, and those below, are opened to find out what they have.
func (v Picker) knowable(level int) bool { return len(v.Levels[level].Files) <= 64 }

// pickFreeing returns the compaction of a table that frees most in proportion to the bytes read, or nil; of equal ones,
// the first by level and number. If a guess is all that is known about it, the compaction only weighs the table. It
// does not pick the same table forever: a table is weighed once, moves down a level or, on the last one, is rewritten
// only when no snapshot needs what it would free, which then disappears.
func (v Picker) pickFreeing(s Shape, o Options) *Compaction {
	var best *Compaction
	var bestTable version.LevelFile
	bestGain := 0.0
	for _, t := range v.mayFree(o) {
		level, f := t.Level, t.File
		if f.Compacting || level == 0 && o.InBurst {
			continue
		}
		freed, later, read := v.freedBy(level, f, o)
		gain := float64(freed) / float64(max(read, 1))
		if !o.worthIt(freed, read) {
			if o.WaitsFor != nil && o.worthIt(later, read) {
				*o.WaitsFor = min(*o.WaitsFor, f.Counts().LargestSeq)
			}
			continue
		}
		if best != nil && (gain < bestGain || gain == bestGain && compareTables(t, bestTable) > 0) {
			continue
		}
		output := level + 1
		switch {
		case level == 0:
			output = s.BaseLevel
		case read == f.Holds():
			output = level
		}
		if c := v.build(level, output, []*version.FileMeta{f}, "space of what is deleted, replaced or expired", o); c != nil {
			best, bestTable, bestGain = c, t, gain
			if f.Gain() == nil {
				c.Weigh = f
			}
		}
	}
	return best
}

// compareTables compares tables by level and number.
func compareTables(a, b version.LevelFile) int {
	return cmp.Or(cmp.Compare(a.Level, b.Level), cmp.Compare(a.File.Num, b.File.Num))
}

// worthIt reports whether a compaction may read that much only to free that much.
func (o Options) worthIt(freed, read uint64) bool {
	return freed >= o.LeastFreed() && float64(freed)*version.FreedCost >= float64(read)
}

// LeastFreed returns how many bytes are worth a compaction.
func (o Options) LeastFreed() uint64 { return o.leastTableSize() / freedLeast }

// Frees reports whether f, a table with a Gain that would be new in level 0, would be compacted with those below for
// what that frees. learn is called first for the tables by which that is judged, whose contents may be unknown.
func (v Picker) Frees(f *version.FileMeta, o Options, learn func(*version.FileMeta)) bool {
	v.LearnBelow(0, f, learn)
	freed, _, read := v.freedBy(0, f, o)
	return read > f.Holds() && o.worthIt(freed, read)
}

// freedSample is the number of tables of a level from which the ones below a table are estimated. A table of level 0
// may overlap all of them.
const freedSample = 64

// LearnBelow calls learn for tables below f.
func (v Picker) LearnBelow(level int, f *version.FileMeta, learn func(*version.FileMeta)) {
	for _, files := range v.below(level, f) {
		for i, n := 0, min(len(files), freedSample); i < n; i++ {
			learn(files[i*len(files)/n])
		}
	}
}

// below returns the tables that may have older entries of f's keys, by level.
func (v Picker) below(level int, f *version.FileMeta) (levels [][]*version.FileMeta) {
	start, limit := f.UserBounds()
	if level == 0 && f.InVersion() {
		older := v.Overlapping(0, start, limit)
		for len(older) > 0 && older[0].Num >= f.Num {
			older = older[1:]
		}
		levels = append(levels, older)
	} else if level == 0 {
		levels = append(levels, v.Overlapping(0, start, limit))
	}
	for l := level + 1; l < version.NumLevels; l++ {
		levels = append(levels, v.Overlapping(l, start, limit))
	}
	return levels
}

// freedBy estimates the bytes that merging f with all overlapping tables below would free: with the present readers,
// and later. read is what must be read for that: only what f has if there is no table below.
func (v Picker) freedBy(level int, f *version.FileMeta, o Options) (freed, later, read uint64) {
	below, perEntry, unknown := v.sizeBelow(level, f)
	c, gain, read := f.Counts(), f.Gain(), f.Holds()+below
	switch seen := c != nil && c.LargestSeq <= o.OldestReader; {
	case gain != nil:
		freed, later = gain.Now, gain.All
		if seen {
			freed = later
		}
		if o.Expired != nil && gain.Stale > 0 && gain.Stale <= o.ExpiredBy {
			freed += f.Holds() / 2
		}
	case c == nil && o.Quiet: // nobody knows before it is weighed
		freed = read
	case c == nil || c.Entries == 0:
	default:
		hides := uint64(perEntry * float64(mayHide(c, o)))
		if o.Quiet && v.knowable(level) {
			hides += unknown // they are looked at
		}
		later = mayDrop(f, level, c, o) + min(below, hides)
		if seen || below > 0 {
			freed = later
		}
	}
	return freed, later, read
}

// sizeBelow estimates what the tables below f hold: all of them, an entry of theirs, and those whose contents are
// unknown.
func (v Picker) sizeBelow(level int, f *version.FileMeta) (all uint64, perEntry float64, unknown uint64) {
	var counted, entries uint64
	for _, files := range v.below(level, f) {
		n, size := min(len(files), freedSample), uint64(0)
		for i := range n {
			other := files[i*len(files)/n]
			size += other.Holds()
			switch c := other.Counts(); {
			case c == nil:
				unknown += other.Holds()
			case c.Entries > 0:
				counted, entries = counted+other.Holds(), entries+c.Entries
			}
		}
		if n < len(files) {
			size = uint64(float64(size) / float64(n) * float64(len(files)))
		}
		all += size
	}
	if entries == 0 {
		return all, unknownEntryBytes, unknown
	}
	return all, float64(counted) / float64(entries), unknown
}

// mayHide returns how many entries may hide others below: as long as writes go on, only tombstones count, since
// compactions will come for the others.
func mayHide(c *version.TableCounts, o Options) uint64 {
	switch {
	case o.Quiet:
		return c.Entries
	case c.Heavy():
		return c.Tombstones
	}
	return 0
}

// mayDrop guesses the bytes of f itself that a merge drops.
func mayDrop(f *version.FileMeta, level int, c *version.TableCounts, o Options) uint64 {
	if c.ManyOlder() && (level > 0 || o.Quiet) {
		return f.Holds()
	}
	return uint64(float64(f.Holds()) / float64(c.Entries) * float64(c.Tombstones))
}
