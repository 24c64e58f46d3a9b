package version

import (
	"cmp"
	"slices"
	"sync/atomic"
)

// roster has the tables of a version by their numbers. It finds the tables that an edit removes, and it
// counts the versions that contain a table. Like the version it never changes: the next one shares the
// buckets in which no table comes or goes. So a step from one version to the next costs the tables of a
// few buckets and the number of buckets, and not the number of tables. (Pebble shares the nodes of a
// B-tree for each level in this way; lookups here search a level in one array instead.)
type roster struct {
	buckets []*bucket // their number is a power of two, or 0
	count   int       // tables
}

// bucket has the tables with certain numbers, in ascending order. A file's refs count the buckets that
// contain it, those without a roster excepted.
type bucket struct {
	entries []rosterEntry
	refs    atomic.Int32 // the number of rosters with the bucket; 0 until hold
}

type rosterEntry struct {
	num   uint64
	level int
	file  *FileMeta
}

// The average number of tables in a bucket is at most bucketFull. Smaller buckets make an edit cheaper
// with few tables, and larger ones with very many.
const bucketFull = 96

// bucketRun is the number of consecutive table numbers that share a bucket: an edit usually adds and
// removes some of those.
const bucketRun = 16

// bucketOf returns the index of the bucket for a number.
func (r *roster) bucketOf(num uint64) int {
	const golden = 0x9E3779B97F4A7C15 // 2^64 divided by the golden ratio, as in Fibonacci hashing
	return int((num / bucketRun * golden >> 32) & uint64(len(r.buckets)-1))
}

func compareNum(e rosterEntry, num uint64) int { return cmp.Compare(e.num, num) }

// find returns the table of that number.
func (r *roster) find(num uint64) (e rosterEntry, ok bool) {
	if len(r.buckets) == 0 {
		return e, false
	}
	entries := r.buckets[r.bucketOf(num)].entries
	i, ok := slices.BinarySearchFunc(entries, num, compareNum)
	if ok {
		e = entries[i]
	}
	return e, ok
}

// LevelOf returns the level of f, if the version contains it.
func (v *Version) LevelOf(f *FileMeta) (level int, ok bool) {
	e, ok := v.roster.find(f.Num)
	return e.level, ok && e.file == f
}

// newRoster returns the roster of entries, in any order. unique is false if two have the same number.
func newRoster(entries []rosterEntry) (r roster, unique bool) {
	if len(entries) == 0 {
		return r, true
	}
	size := 1
	for size*bucketFull/2 < len(entries) {
		size *= 2
	}
	r = roster{buckets: make([]*bucket, size), count: len(entries)}
	counts := make([]int, size)
	for _, e := range entries {
		counts[r.bucketOf(e.num)]++
	}
	for i, n := range counts {
		r.buckets[i] = &bucket{entries: make([]rosterEntry, 0, n)}
	}
	for _, e := range entries {
		b := r.buckets[r.bucketOf(e.num)]
		b.entries = append(b.entries, e)
	}
	unique = true
	for _, b := range r.buckets {
		slices.SortFunc(b.entries, func(a, b rosterEntry) int { return cmp.Compare(a.num, b.num) })
		for i := 1; i < len(b.entries); i++ {
			unique = unique && b.entries[i-1].num != b.entries[i].num
		}
	}
	return r, unique
}

// with returns a roster without removed, which r has, and with added. unique is false if two tables have
// the same number.
func (r *roster) with(removed, added []rosterEntry) (next roster, unique bool) {
	next.count = r.count - len(removed) + len(added)
	if n := len(r.buckets) * bucketFull; next.count > n || next.count < n/8 && len(r.buckets) > 1 {
		return newRoster(r.all(removed, added))
	}
	next.buckets = slices.Clone(r.buckets)
	removed, added = r.byBucket(removed), r.byBucket(added)
	for len(removed)+len(added) > 0 {
		i := len(r.buckets)
		if len(removed) > 0 {
			i = r.bucketOf(removed[0].num)
		}
		if len(added) > 0 {
			i = min(i, r.bucketOf(added[0].num))
		}
		var gone, come []rosterEntry
		gone, removed = r.cutBucket(removed, i)
		come, added = r.cutBucket(added, i)
		if next.buckets[i], unique = r.buckets[i].with(gone, come); !unique {
			return roster{}, false
		}
	}
	return next, true
}

// byBucket returns entries in the order of their buckets and, within one, of their numbers.
func (r *roster) byBucket(entries []rosterEntry) []rosterEntry {
	if len(entries) < 2 {
		return entries
	}
	entries = slices.Clone(entries)
	slices.SortFunc(entries, func(a, b rosterEntry) int {
		return cmp.Or(cmp.Compare(r.bucketOf(a.num), r.bucketOf(b.num)), cmp.Compare(a.num, b.num))
	})
	return entries
}

// cutBucket divides entries after the leading ones of bucket i.
func (r *roster) cutBucket(entries []rosterEntry, i int) (first, rest []rosterEntry) {
	n := 0
	for n < len(entries) && r.bucketOf(entries[n].num) == i {
		n++
	}
	return entries[:n], entries[n:]
}

// with returns a bucket without removed, which b has, and with added. Both ascend. They are merged in one pass, because
// the numbers in a MANIFEST may have been chosen so that one bucket has all tables. unique is as in roster.with.
func (b *bucket) with(removed, added []rosterEntry) (next *bucket, unique bool) {
	left, out := b.entries, make([]rosterEntry, 0, len(b.entries)-len(removed)+len(added))
	for len(removed)+len(added) > 0 {
		if len(added) == 0 || len(removed) > 0 && removed[0].num <= added[0].num {
			i, _ := slices.BinarySearchFunc(left, removed[0].num, compareNum)
			out = append(out, left[:i]...)
			left, removed = left[i+1:], removed[1:]
			continue
		}
		num := added[0].num
		i, found := slices.BinarySearchFunc(left, num, compareNum)
		out = append(out, left[:i]...)
		if found || len(out) > 0 && out[len(out)-1].num == num {
			return nil, false
		}
		out = append(out, added[0])
		left, added = left[i:], added[1:]
	}
	return &bucket{entries: append(out, left...)}, true
}

// all returns the entries of r without removed and with added.
func (r *roster) all(removed, added []rosterEntry) []rosterEntry {
	gone := make(map[uint64]bool, len(removed))
	for _, e := range removed {
		gone[e.num] = true
	}
	all := make([]rosterEntry, 0, r.count+len(added))
	for _, b := range r.buckets {
		for _, e := range b.entries {
			if !gone[e.num] {
				all = append(all, e)
			}
		}
	}
	return append(all, added...)
}

// hold counts the roster as one of a version. The version of which it has buckets must be in use.
func (r *roster) hold() {
	for _, b := range r.buckets {
		if b.refs.Add(1) > 1 {
			continue
		}
		for i := range b.entries {
			b.entries[i].file.refs.Add(1)
		}
	}
}

// release ends what hold began, and returns the tables that no version contains any more.
func (r *roster) release() (gone []LevelFile) {
	for _, b := range r.buckets {
		if b.refs.Add(-1) > 0 {
			continue
		}
		for _, e := range b.entries {
			if e.file.refs.Add(-1) == 0 {
				gone = append(gone, LevelFile{e.level, e.file})
			}
		}
	}
	return gone
}
