package version

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/test/damage"
	"github.com/sievedb/sievedb/internal/test/result"
)

// appliedStore is a chain of versions, of which some are still in use, with a plain model of each.
type appliedStore struct {
	t        *testing.T
	rnd      *rand.Rand
	owner    Owner
	cmp      *base.Comparer
	current  *Version
	model    map[place]*FileMeta
	held     []heldVersion // by readers
	obsolete map[*FileMeta]int
	num      uint64
}

type heldVersion struct {
	v     *Version
	model map[place]*FileMeta
}

// place is a table on a level.
type place struct {
	level int
	num   uint64
}

func newAppliedStore(t *testing.T, rnd *rand.Rand, cmp *base.Comparer) *appliedStore {
	s := &appliedStore{t: t, rnd: rnd, cmp: cmp, model: map[place]*FileMeta{}, obsolete: map[*FileMeta]int{}}
	s.owner.Obsolete = func(files []LevelFile) {
		for i, f := range files {
			require.NotContains(t, s.obsolete, f.File, "a table becomes obsolete once")
			s.obsolete[f.File] = f.Level
			if i > 0 {
				require.LessOrEqual(t, f.Level, files[i-1].Level, "the deepest level first")
			}
			if i > 0 && f.Level == files[i-1].Level {
				require.Positive(t, CompareFiles(cmp, f.Level, files[i-1].File, f.File), "the oldest entries first")
			}
		}
	}
	s.current = New(cmp, &s.owner)
	return s
}

// table returns a table of a few keys that may overlap others.
func (s *appliedStore) table() *FileMeta {
	prefix := []string{"", "shared ", "shared prefix of many "}[s.rnd.IntN(10)*s.rnd.IntN(10)/27%3]
	lo := s.rnd.IntN(5000)
	hi := lo + s.rnd.IntN(1+s.rnd.IntN(30))
	num := s.num
	if s.rnd.IntN(20) > 0 {
		s.num += 1 + s.rnd.Uint64N(3)
		num = s.num
	}
	f := NewFileMeta(num, 1+s.rnd.Uint64N(100), ikey(fmt.Sprintf("%s%05d", prefix, lo), 5), ikey(fmt.Sprintf("%s%05d", prefix, hi), s.rnd.Uint64N(9)))
	switch s.rnd.IntN(4) {
	case 0:
		f.SetCounts(&TableCounts{Entries: 10, Tombstones: s.rnd.Uint64N(10), LargestSeq: 1})
	case 1:
		f.SetCounts(&TableCounts{Entries: 10, Expiry: 1 + s.rnd.Uint64N(100)})
	}
	return f
}

// edit returns an edit that removes and adds tables, and moves some. It may be unsound.
func (s *appliedStore) edit() Change {
	var e Change
	places := make([]place, 0, len(s.model))
	for p := range s.model {
		places = append(places, p)
	}
	slices.SortFunc(places, func(a, b place) int { return compareNum(rosterEntry{num: a.num}, b.num) })
	for range s.rnd.IntN(4) {
		if len(places) == 0 {
			break
		}
		p := places[s.rnd.IntN(len(places))]
		switch s.rnd.IntN(8) {
		case 0: // a table that is not there
			e.Deleted = append(e.Deleted, DeletedFile{p.level, p.num + 1}, DeletedFile{(p.level + 1) % NumLevels, p.num})
		case 1: // moved
			e.Added = append(e.Added, LevelFile{min(p.level+1, NumLevels-1), s.model[p]})
			fallthrough
		default:
			e.Deleted = append(e.Deleted, DeletedFile{p.level, p.num})
		}
	}
	for range s.rnd.IntN(1 + s.rnd.IntN(40)) {
		e.Added = append(e.Added, LevelFile{s.rnd.IntN(NumLevels), s.table()})
	}
	return e
}

// applied returns the model after an edit.
func (s *appliedStore) applied(edits []Change) map[place]*FileMeta {
	model := maps.Clone(s.model)
	for _, e := range edits {
		for _, d := range e.Deleted {
			delete(model, place{d.Level, d.Num})
		}
		for _, a := range e.Added {
			model[place{a.Level, a.File.Num}] = a.File
		}
	}
	return model
}

// scratch returns the version of a model that is made without the one before it.
func (s *appliedStore) scratch(model map[place]*FileMeta) (*Version, error) {
	v := &Version{Cmp: s.cmp}
	var files [NumLevels][]*FileMeta
	for p, f := range model {
		files[p.level] = append(files[p.level], f)
	}
	for level := range files {
		v.Levels[level] = newLevel(s.cmp, level, files[level])
	}
	if err := v.check(); err != nil {
		return nil, err
	}
	v.prepareSearch()
	return v, nil
}

// step applies edits, and compares the result, or the error, with that of a version from scratch.
func (s *appliedStore) step() {
	edits := []Change{s.edit()}
	for s.rnd.IntN(4) == 0 {
		edits = append(edits, s.edit())
	}
	before := s.applied(nil)
	model := s.applied(edits)
	next, err := s.current.Apply(edits...)
	want, wantErr := s.scratch(model)
	if wantErr != nil {
		require.ErrorIs(s.t, err, base.ErrCorruption)
		s.compare(s.current, before)
		return
	}
	require.NoError(s.t, err)
	s.compareSearch(want, next)
	s.compare(next, model)
	switch {
	case s.rnd.IntN(5) == 0:
		next.Discard()
		s.compare(s.current, before)
		return
	case s.rnd.IntN(3) == 0 && s.current.TryRef():
		s.held = append(s.held, heldVersion{s.current, s.model})
	}
	old := s.current
	s.current, s.model = next, model
	old.Unref()
	if s.rnd.IntN(3) == 0 && len(s.held) > 0 {
		i := s.rnd.IntN(len(s.held))
		h := s.held[i]
		s.compare(h.v, h.model)
		s.held = slices.Delete(s.held, i, i+1)
		h.v.Unref()
	}
}

// compare checks what v knows about its tables.
func (s *appliedStore) compare(v *Version, model map[place]*FileMeta) {
	require.Equal(s.t, len(model), v.NumFiles())
	require.Equal(s.t, len(model), v.roster.count)
	heavy, expiring := 0, 0
	for p, f := range model {
		e, ok := v.roster.find(p.num)
		require.True(s.t, ok && e.level == p.level && e.file == f)
		require.True(s.t, f.InVersion())
		require.NotContains(s.t, s.obsolete, f)
		if c := f.Counts(); c.Heavy() {
			heavy++
		} else if c != nil && c.Expiry > 0 && c.Expiry <= 50 {
			expiring++
		}
	}
	require.Len(s.t, v.Heavy(), heavy)
	require.Len(s.t, v.Expiring(50), expiring)
}

// compareSearch checks that two versions have the same levels, and search them in the same way.
func (s *appliedStore) compareSearch(want, got *Version) {
	require.Equal(s.t, string(want.shared), string(got.shared))
	for level := range want.Levels {
		a, b := &want.Levels[level], &got.Levels[level]
		require.True(s.t, slices.Equal(a.Files, b.Files), "level %d", level)
		require.Equal(s.t, a.Bytes, b.Bytes)
		if n := len(a.Files); n > 0 {
			require.Equal(s.t, a.smallest, b.smallest)
			require.Equal(s.t, a.largest, b.largest)
			require.True(s.t, bytes.Equal(a.least, b.least) && bytes.Equal(a.greatest, b.greatest))
			require.Equal(s.t, string(a.shared), string(b.shared))
		}
		if s.rnd.IntN(8) == 0 && level > 0 && level+1 < NumLevels {
			require.Equal(s.t, want.OverlapRatios(level), got.OverlapRatios(level))
		} else if ratios := got.overlaps[level].Load(); ratios != nil {
			require.Equal(s.t, want.OverlapRatios(level), *ratios)
		}
	}
	require.Equal(s.t, orderOf(s.cmp, want.Levels[0].Files), order(got.level0.order.Load()))
}

// A version that is made from the one before it is the same as one that is made from scratch, and what is
// refused is the same. Tables are obsolete when the last version with them is released, and not before.
func TestAppliedVersionsEqualThoseFromScratch(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	custom := &base.Comparer{Name: "test", Compare: base.Bytewise.Compare} // not Bytewise: no prefixes
	for round := range uint64(30) {
		rnd := rand.New(rand.NewPCG(seed, round))
		s := newAppliedStore(t, rnd, []*base.Comparer{base.Bytewise, custom}[round%2])
		for range 60 {
			s.step()
		}
		for _, h := range s.held {
			h.v.Unref()
		}
		for _, f := range s.model {
			require.NotContains(t, s.obsolete, f)
		}
		s.current.Unref()
		for _, f := range s.model {
			require.Contains(t, s.obsolete, f)
			require.False(t, f.InVersion())
		}
		require.Empty(t, s.owner.noted.heavy)
		require.Empty(t, s.owner.noted.expiring.tables)
		require.Empty(t, s.owner.noted.expiring.index)
	}
}

// Each bucket that an edit changes had room for all tables of the edit: with 40,000 tables, one of 50,000 took 1.2 GB.
func TestAnEditOfManyTablesTakesMemoryForEachOnce(t *testing.T) {
	s := newScaleStore(t, 4000)
	var e Change
	for range 8000 {
		e.Added = append(e.Added, LevelFile{0, s.table(0, 0)})
	}
	s.apply(t, e)
	require.Equal(t, 12_000, s.v.roster.count)
	for _, b := range s.v.roster.buckets {
		require.LessOrEqual(t, cap(b.entries), 2*len(b.entries)+bucketRun)
	}
}

// A MANIFEST may have table numbers that were chosen to share a bucket. Each edit inserted them there one by one, so
// that 100,000 of them took seconds, and the bucket grew again and again.
func TestTablesThatShareABucketAreMergedOnce(t *testing.T) {
	s := newScaleStore(t, 4000)
	buckets, bucket := len(s.v.roster.buckets), s.v.roster.bucketOf(0)
	var nums []uint64
	for num := uint64(5000); len(nums) < 4000; num++ {
		if s.v.roster.bucketOf(num) == bucket {
			nums = append(nums, num)
		}
	}
	add := func(nums []uint64) (e Change) {
		for _, num := range nums {
			e.Added = append(e.Added, LevelFile{0, file(num, "a", "b", 1)})
		}
		return e
	}
	even, odd := make([]uint64, 0, len(nums)/2), make([]uint64, 0, len(nums)/2)
	for i, num := range nums {
		if i%2 == 0 {
			even = append(even, num)
		} else {
			odd = append(odd, num)
		}
	}
	s.apply(t, add(even))
	require.Equal(t, buckets, len(s.v.roster.buckets))
	removed, added := s.v.net([]Change{add(odd), {Deleted: []DeletedFile{{0, even[7]}, {0, odd[9]}}}})
	var next roster
	took := uint64(math.MaxUint64)
	for range 5 { // other goroutines of the process may allocate meanwhile
		before := damage.Allocated()
		var unique bool
		next, unique = s.v.roster.with(removed, added)
		took = min(took, damage.Allocated()-before)
		require.True(t, unique)
	}
	entries := next.buckets[bucket].entries
	require.GreaterOrEqual(t, len(entries), 3998)
	require.Equal(t, len(entries), cap(entries))
	require.True(t, slices.IsSortedFunc(entries, func(a, b rosterEntry) int { return cmp.Compare(a.num, b.num) }))
	entry := uint64(unsafe.Sizeof(rosterEntry{}))
	require.Less(t, took, entry*uint64(len(entries)+len(added)+len(removed))+16<<10)
	for _, num := range []uint64{even[7], odd[9]} {
		_, ok := next.find(num)
		require.False(t, ok)
	}
}

// A comparer of the user may contradict itself. What an edit removes is then still the table that it names, or the
// MANIFEST would name one whose file is removed.
func TestAContradictoryOrderRemovesTheTableThatIsNamed(t *testing.T) {
	reverse := false
	custom := &base.Comparer{Name: "test", Compare: func(a, b []byte) int {
		if reverse {
			a, b = b, a
		}
		return bytes.Compare(a, b)
	}}
	var added []LevelFile
	for i := range uint64(5) {
		added = append(added, LevelFile{2, file(i+1, fmt.Sprintf("%d0", i), fmt.Sprintf("%d9", i), 10)})
	}
	v := result.Of(New(custom, new(Owner)).Apply(Change{Added: added}))(t)
	for _, num := range []uint64{1, 5} {
		reverse = true
		next, err := v.Apply(Change{Deleted: []DeletedFile{{2, num}}})
		reverse = false
		require.NoError(t, err)
		require.Len(t, next.Levels[2].Files, len(v.Levels[2].Files)-1)
		require.NotContains(t, next.Levels[2].Files, added[num-1].File)
		v = next
	}
}
