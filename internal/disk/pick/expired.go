package pick

import (
	"cmp"
	"math"
	"slices"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/version"
)

// pickExpired returns the removal of tables of one level whose values have all expired, or nil. No
// older entries of their keys may be left elsewhere: those would appear again. So the deepest level
// comes first, and after it is done the next one.
func (v Picker) pickExpired(o Options) *Compaction {
	limit := o.ExpiredBy
	if limit == 0 {
		limit = math.MaxUint64
	}
	// In the order of removal: the deepest level first, and the oldest of level 0.
	files := v.Expiring(limit)
	slices.SortFunc(files, func(a, b version.LevelFile) int {
		return cmp.Or(cmp.Compare(b.Level, a.Level), version.CompareFiles(v.Cmp, a.Level, b.File, a.File))
	})
	c := &Compaction{Version: v.Version, Reason: "all values have expired", Drop: true}
	for _, f := range files {
		if len(c.Inputs) > 0 && f.Level != c.Level {
			break
		}
		if !f.File.Compacting && o.Expired(f.File) && !v.hasOlder(f.Level, f.File, c.Inputs) {
			c.Level, c.OutputLevel, c.Inputs = f.Level, f.Level, append(c.Inputs, f.File)
		}
	}
	if len(c.Inputs) == 0 {
		return nil
	}
	return c
}

// hasOlder reports whether a table other than those in removed may have entries of f's keys that are older than f's.
func (v Picker) hasOlder(level int, f *version.FileMeta, removed []*version.FileMeta) bool {
	start, end := base.UserKey(f.Smallest), base.UserKey(f.Largest)
	for l := level + 1; l < version.NumLevels; l++ {
		if len(v.Overlapping(l, start, end)) > 0 {
			return true
		}
	}
	// Newer tables of level 0 do not matter, if it is known which are newer. On a deeper level
	// a neighbor may have the older versions of f's last key.
	ordered := level == 0 && v.Level0InOrder()
	for _, other := range v.Overlapping(level, start, end) {
		if ordered && other.Num > f.Num {
			continue
		}
		if other != f && !slices.Contains(removed, other) {
			return true
		}
	}
	return false
}
