package manifest

import "iter"

// MayHold returns the tables whose ranges include key, with their levels, in the order in
// which lookups ask them: level 0 from the newest table on, then one table of each deeper
// level, or several if a table ends in the middle of the key's versions. DB.Get and
// DB.MultiGet walk in loops of their own, which are faster; other callers use this one.
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
				// A table may end in the middle of the key's versions (LevelDB once wrote
				// such): then the older ones begin the next table.
				if level > 0 && (!covers || !l.EndsWith(i, target)) {
					break
				}
			}
		}
	}
}
