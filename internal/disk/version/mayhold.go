package version

import "iter"

// MayHold returns the tables whose ranges include key, with their levels, in the order of lookups:
// the tables of level 0 from the newest on, then one table of each deeper level, or several if a
// table ends between versions of the key. DB.Get and DB.MultiGet have their own loops, which are
// faster; all other callers use MayHold.
func (v *Version) MayHold(key []byte) iter.Seq2[int, *FileMeta] {
	return func(yield func(int, *FileMeta) bool) {
		target, inRange := v.Target(key)
		if !inRange {
			return
		}
		for level := range v.Levels {
			l := &v.Levels[level]
			first := 0
			if level > 0 {
				first = l.Seek(target)
			}
			for i := first; i < len(l.Files); i++ {
				covers := l.Covers(i, target)
				if covers && !yield(level, l.Files[i]) {
					return
				}
				// A table may end between versions of the key (LevelDB once wrote such
				// tables); the next table then begins with the older versions.
				if level > 0 && (!covers || !l.EndsWith(i, target)) {
					break
				}
			}
		}
	}
}
