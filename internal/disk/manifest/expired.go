package manifest

import (
	"slices"

	"github.com/sievedb/sievedb/internal/base"
)

// pickExpired returns the removal of tables of one level whose values have all expired, or nil. No
// older entries of their keys may be left elsewhere: those would appear again. So the deepest level
// comes first, and after it is done the next one.
func (v *Version) pickExpired(o PickOptions) *Compaction {
	for level := NumLevels - 1; level >= 0; level-- {
		files := v.Levels[level].Files
		c := &Compaction{Version: v, Level: level, OutputLevel: level, Reason: "all values have expired", Drop: true}
		for i := len(files) - 1; i >= 0; i-- { // the oldest of level 0 first
			f := files[i]
			if !f.Compacting && o.Expired(f) && !v.hasOlder(level, f, c.Inputs) {
				c.Inputs = append(c.Inputs, f)
			}
		}
		if len(c.Inputs) > 0 {
			return c
		}
	}
	return nil
}

// hasOlder reports whether a table other than those in removed may have entries of f's keys that are
// older than f's.
func (v *Version) hasOlder(level int, f *FileMeta, removed []*FileMeta) bool {
	start, end := base.UserKey(f.Smallest), base.UserKey(f.Largest)
	for l := level + 1; l < NumLevels; l++ {
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
