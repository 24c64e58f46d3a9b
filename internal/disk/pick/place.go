package pick

import (
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/version"
)

// Place returns the levels for new tables that are newer than all tables of v and do not overlap a memtable. If they
// overlap each other, later ones are newer and have greater numbers. A lookup ends at the first level that has its key,
// so a table must be above all tables that it overlaps: on the deepest level such that no table there or above overlaps
// it. A running compaction counts as one table on its output level; see outputSpans.
//
// A table is not placed where it would overlap more of the next level than a compaction's output may,
// because merging it later would be too expensive. The levels above the base level are usually empty,
// and are used only if these tables alone would trigger a compaction of level 0.
func (v Picker) Place(files []*version.FileMeta, o Options) []version.LevelFile {
	placed := make([]version.LevelFile, len(files))
	baseLevel, above := v.Shape(o).BaseLevel, 0
	var taken [version.NumLevels][]userSpan
	for level := range taken {
		taken[level] = o.outputSpans(level)
	}
	earlier := make([]userSpan, 0, len(files))
	var end []byte // of the last of them
	for i, f := range files {
		placed[i] = version.LevelFile{File: f}
		span := userSpan{base.UserKey(f.Smallest), base.UserKey(f.Largest)}
		after := i == 0 || v.Cmp.Compare(span.start, end) > 0 // as each table of a load that is in order
		if after || !meetsSpan(v.Cmp, earlier, span.start, span.limit) {
			placed[i].Level = v.deepestFree(f, &taken, o)
		}
		if i == 0 || v.Cmp.Compare(span.limit, end) > 0 {
			end = span.limit
		}
		earlier = append(earlier, span)
		if placed[i].Level < baseLevel {
			above++
		}
	}
	if above >= o.L0Trigger {
		return placed
	}
	for i := range placed {
		if placed[i].Level < baseLevel {
			placed[i].Level = 0
		}
	}
	return placed
}

// deepestFree returns the level for f.
func (v Picker) deepestFree(f *version.FileMeta, taken *[version.NumLevels][]userSpan, o Options) int {
	start, limit := base.UserKey(f.Smallest), base.UserKey(f.Largest)
	level := 0
	for level+1 < version.NumLevels && len(v.Overlapping(level, start, limit)) == 0 {
		next := level + 1
		if len(v.Overlapping(next, start, limit)) > 0 || meetsSpan(v.Cmp, taken[next], start, limit) {
			break
		}
		level = next
	}
	if level > 0 && level+1 < version.NumLevels && version.TotalSize(v.Overlapping(level+1, start, limit)) > v.maxGrandparentOverlap(level, o) {
		level-- // the compaction to the deeper level will cut it into suitable tables
	}
	return level
}
