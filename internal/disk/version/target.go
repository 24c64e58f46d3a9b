package version

import (
	"bytes"
	"math"
	"sort"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/util"
)

// keyRanges has the ranges of user keys of a level's tables, so that a search usually accesses neither the FileMetas
// nor their keys: the eight bytes of each table's smallest and largest user key after the common prefix of the version,
// padded with zeros, as big-endian numbers. They order as the keys do, except if they are equal; then the whole keys
// decide. For comparers that are not bytewise all of them are 0.
type keyRanges struct {
	cmp               *base.Comparer
	smallest, largest []uint64
	shared            []byte // Version.shared
}

// Target is a user key to search for in the levels of one version. It is valid only for that version,
// and as long as the key does not change.
type Target struct {
	key    []byte
	prefix uint64
}

// Target prepares a search for key. ok is false if no table can have it, because it lacks the common
// prefix of all keys.
func (v *Version) Target(key []byte) (t Target, ok bool) {
	n := len(v.shared)
	if len(key) < n || string(key[:n]) != string(v.shared) {
		return t, false
	}
	t.key = key
	if v.Cmp.IsBytewise() {
		t.prefix = util.Prefix64(key, n)
	}
	return t, true
}

// prepareSearch initializes the fields for Target and Find. The version must have been checked.
func (v *Version) prepareSearch() {
	for level := range v.Levels {
		v.Levels[level].setExtremes(v.Cmp, level)
	}
	v.shared = v.sharedPrefix()
	v.indexLevels()
}

// indexLevels initializes the keyRanges of all levels. Version.shared must be set.
func (v *Version) indexLevels() {
	for level := range v.Levels {
		l := &v.Levels[level]
		n := len(l.Files)
		prefixes := make([]uint64, 2*n)
		l.keyRanges = keyRanges{cmp: v.Cmp, smallest: prefixes[:n:n], largest: prefixes[n:], shared: v.shared}
		if !v.Cmp.IsBytewise() {
			continue
		}
		for i, f := range l.Files {
			l.smallest[i], l.largest[i] = l.head(f.Smallest), l.head(f.Largest)
		}
	}
}

// head returns the eight bytes of an internal key that keyRanges has.
func (r *keyRanges) head(ikey []byte) uint64 { return util.Prefix64(base.UserKey(ikey), len(r.shared)) }

// sharedPrefix returns the common prefix of all user keys that a table of the version may have, or
// nothing for orders other than bytewise.
func (v *Version) sharedPrefix() []byte {
	var least, greatest []byte
	for level := range v.Levels {
		l := &v.Levels[level]
		if l.least == nil {
			continue
		}
		if least == nil || bytes.Compare(l.least, least) < 0 {
			least = l.least
		}
		if greatest == nil || bytes.Compare(l.greatest, greatest) > 0 {
			greatest = l.greatest
		}
	}
	return least[:base.SharedPrefixLen(least, greatest)]
}

// Seek returns the index of the first file whose largest user key is at or after the target, or
// len(l.Files). It must not be called for level 0.
func (l *Level) Seek(t Target) int {
	i := util.LowerBound64(l.largest, t.prefix)
	if i < len(l.largest) && l.largest[i] == t.prefix {
		return l.seekTie(i, t)
	}
	return i
}

// seekTie is Seek among the files from i on with the same eight bytes as the target.
func (l *Level) seekTie(i int, t Target) int {
	n := len(l.largest) - i
	if t.prefix < math.MaxUint64 {
		n = util.LowerBound64(l.largest[i:], t.prefix+1)
	}
	return i + sort.Search(n, func(j int) bool {
		return l.cmp.Compare(base.UserKey(l.Files[i+j].Largest), t.key) >= 0
	})
}

// Covers reports whether the target is in the range of file i.
func (l *Level) Covers(i int, t Target) bool {
	return l.smallest[i] < t.prefix && t.prefix < l.largest[i] || l.coversTie(i, t)
}

// coversTie is Covers when the eight bytes may not decide.
func (l *Level) coversTie(i int, t Target) bool {
	return l.smallest[i] <= t.prefix && t.prefix <= l.largest[i] && l.Files[i].OverlapsUser(l.cmp, t.key, t.key)
}

// EndsWith reports whether the target is the largest user key of file i. The next file may then begin
// with the key's older versions.
func (l *Level) EndsWith(i int, t Target) bool {
	return l.largest[i] == t.prefix && l.endsWithTie(i, t.key)
}

func (l *Level) endsWithTie(i int, key []byte) bool {
	return l.cmp.Compare(base.UserKey(l.Files[i].Largest), key) == 0
}

// Find returns the index of the first file whose largest user key is >= key, or len(l.Files). It must
// not be called for level 0.
func (l *Level) Find(key []byte) int {
	n := len(l.shared)
	switch head := key[:min(n, len(key))]; {
	case string(head) < string(l.shared):
		return 0
	case string(head) > string(l.shared):
		return len(l.Files)
	}
	t := Target{key: key}
	if n := len(l.Files); n > 0 && l.cmp.IsBytewise() {
		t.prefix = util.Prefix64(key, len(l.shared))
	}
	return l.Seek(t)
}
