package manifest

import (
	"slices"

	"github.com/sievedb/sievedb/internal/base"
)

// Place says where tables go that are newer than all that v holds, and that meet
// neither each other nor a memtable. A lookup ends at the first level that has its
// key, so a table lies above all that it meets: on the deepest level such that no
// table there or above meets it. A running compaction counts as one table on its
// output level: see outputSpans.
//
// A table is not put where it meets more of the next level than a compaction's
// output may: merging it later would take more than its share. The levels above the
// base level are empty as a rule, and are used only where level 0 would come to be
// worth a compaction by these tables alone.
func (v *Version) Place(files []*FileMeta, o PickOptions) []LevelFile {
	placed := make([]LevelFile, len(files))
	baseLevel, above := v.Shape(o).BaseLevel, 0
	var taken [NumLevels][]userSpan
	for level := range taken {
		taken[level] = o.outputSpans(level)
	}
	for i, f := range files {
		placed[i] = LevelFile{Level: v.deepestFree(f, &taken, o), File: f}
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
func (v *Version) deepestFree(f *FileMeta, taken *[NumLevels][]userSpan, o PickOptions) int {
	start, limit := base.UserKey(f.Smallest), base.UserKey(f.Largest)
	level := 0
	for level+1 < NumLevels && len(v.Overlapping(level, start, limit)) == 0 {
		next := level + 1
		if len(v.Overlapping(next, start, limit)) > 0 || meetsSpan(v.Cmp, taken[next], start, limit) {
			break
		}
		level = next
	}
	if level > 0 && level+1 < NumLevels && totalSize(v.Overlapping(level+1, start, limit)) > o.maxGrandparentOverlap() {
		level-- // a compaction down to where it would have been cuts it as is right there
	}
	return level
}

// DisjointRuns splits files, in any order, into few runs whose tables ascend and
// share no user key, for a merge to read each run with one iterator.
func (v *Version) DisjointRuns(files []*FileMeta) [][]*FileMeta {
	files = slices.Clone(files)
	slices.SortFunc(files, func(a, b *FileMeta) int { return base.CompareInternal(v.Cmp, a.Smallest, b.Smallest) })
	var runs [][]*FileMeta
	for _, f := range files {
		fits := func(run []*FileMeta) bool {
			return v.Cmp.Compare(base.UserKey(run[len(run)-1].Largest), base.UserKey(f.Smallest)) < 0
		}
		if i := slices.IndexFunc(runs, fits); i >= 0 {
			runs[i] = append(runs[i], f)
		} else {
			runs = append(runs, []*FileMeta{f})
		}
	}
	return runs
}
