package version

import (
	"fmt"
	"math/rand/v2"
	"sort"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/test/result"
)

func ikey(user string, seq uint64) []byte {
	return base.AppendInternalKey(nil, []byte(user), seq, base.KindSet)
}

// file describes a table of the given user keys, with sequence number 1 unless a test sets others.
func file(num uint64, smallest, largest string, size uint64) *FileMeta {
	return NewFileMeta(num, size, ikey(smallest, 1), ikey(largest, 1))
}

func numsOf(files []*FileMeta) (n []uint64) {
	for _, f := range files {
		n = append(n, f.Num)
	}
	return n
}

func versionOf(t *testing.T, levels map[int][]*FileMeta) *Version {
	t.Helper()
	var e Change
	for level, files := range levels {
		for _, f := range files {
			e.Added = append(e.Added, LevelFile{level, f})
		}
	}
	v := result.Of(New(base.Bytewise, new(Owner)).Apply(e))(t)
	return v
}

func TestFindAgreesWithKeySearch(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	reversed := &base.Comparer{Name: "test", Compare: base.Bytewise.Compare} // not Bytewise: no prefixes
	for round := range 200 {
		prefix := []string{"", "k", "a long shared prefix ", "\xff\xff"}[round%4]
		keys := map[string]bool{}
		for len(keys) < 1+rnd.IntN(40) {
			b := make([]byte, rnd.IntN(12))
			for i := range b {
				b[i] = "\x00\x01ab\xff"[rnd.IntN(5)]
			}
			keys[prefix+string(b)] = true
		}
		var sorted []string
		for k := range keys {
			sorted = append(sorted, k)
		}
		sort.Strings(sorted)
		var files []*FileMeta
		for i, k := range sorted {
			files = append(files, file(uint64(i+1), k, k, 1))
		}
		fast, slow := &Version{Cmp: base.Bytewise}, &Version{Cmp: reversed}
		for _, v := range []*Version{fast, slow} {
			v.Levels[1] = newLevel(v.Cmp, 1, append([]*FileMeta(nil), files...))
			v.prepareSearch()
		}
		for range 200 {
			target := []byte(sorted[rnd.IntN(len(sorted))])
			switch rnd.IntN(4) {
			case 0:
				target = target[:rnd.IntN(len(target)+1)]
			case 1:
				target = append(target, byte(rnd.UintN(256)))
			case 2:
				target = []byte{byte(rnd.UintN(256))}
			}
			want := sort.SearchStrings(sorted, string(target))
			for _, v := range []*Version{fast, slow} {
				l := &v.Levels[1]
				require.Equal(t, want, l.Find(target), "target %q in %q", target, sorted)
				here := want < len(sorted) && sorted[want] == string(target)
				searched, ok := v.Target(target)
				if !ok {
					require.False(t, here)
					continue
				}
				require.Equal(t, want, l.Seek(searched), "target %q in %q", target, sorted)
				if want < len(sorted) {
					require.Equal(t, here, l.Covers(want, searched))
					require.Equal(t, here, l.EndsWith(want, searched))
				}
			}
		}
	}
}

func TestOverlappingBoundsAreInclusive(t *testing.T) {
	v := versionOf(t, map[int][]*FileMeta{
		0: {file(9, "a", "m", 1), file(8, "k", "z", 1)},
		1: {file(1, "a", "c", 1), file(2, "e", "g", 1), file(3, "i", "k", 1)},
	})
	for _, c := range []struct {
		level        int
		start, limit string
		want         []uint64
	}{
		{1, "c", "e", []uint64{1, 2}},
		{1, "d", "d", nil},
		{1, "g", "h", []uint64{2}},
		{1, "x", "z", nil},
		{0, "l", "l", []uint64{9, 8}},
		{0, "a", "b", []uint64{9}},
	} {
		t.Run(fmt.Sprintf("level %d from %s to %s", c.level, c.start, c.limit), func(t *testing.T) {
			require.Equal(t, c.want, numsOf(v.Overlapping(c.level, []byte(c.start), []byte(c.limit))))
		})
	}
	require.Equal(t, []uint64{1, 2, 3}, numsOf(v.Overlapping(1, nil, nil)))
	require.Equal(t, []uint64{9, 8}, numsOf(v.Overlapping(0, nil, nil)), "level 0 newest first")
}

func TestWithinExcludesTheLimit(t *testing.T) {
	v := versionOf(t, map[int][]*FileMeta{
		0: {file(9, "a", "m", 1), file(8, "k", "z", 1)},
		1: {file(1, "a", "c", 1), file(2, "e", "g", 1), file(3, "i", "k", 1)},
		// Versions of one user key in three tables.
		2: {
			NewFileMeta(4, 1, ikey("a", 9), ikey("k", 7)), NewFileMeta(5, 1, ikey("k", 6), ikey("k", 5)),
			NewFileMeta(6, 1, ikey("k", 4), ikey("p", 3)),
		},
	})
	for _, c := range []struct {
		level        int
		start, limit string // "": none
		want         []uint64
	}{
		{1, "", "", []uint64{1, 2, 3}}, {1, "", "a", nil}, {1, "", "a\x00", []uint64{1}}, {1, "k", "", []uint64{3}}, {1, "k\x00", "", nil},
		{1, "c", "e", []uint64{1}}, {1, "c", "e\x00", []uint64{1, 2}}, {1, "d", "e", nil}, {1, "g", "z", []uint64{2, 3}},
		{1, "f", "f", []uint64{2}}, {1, "e", "e", nil}, {1, "z", "a", nil},
		{0, "", "k", []uint64{9}}, {0, "", "k\x00", []uint64{9, 8}}, {0, "m", "", []uint64{9, 8}}, {0, "a", "a", nil},
		{2, "", "k", []uint64{4}}, {2, "", "k\x00", []uint64{4, 5, 6}}, {2, "k", "l", []uint64{4, 5, 6}}, {2, "k", "k", []uint64{4}},
	} {
		t.Run(fmt.Sprintf("level %d from %q to %q", c.level, c.start, c.limit), func(t *testing.T) {
			require.Equal(t, c.want, numsOf(v.Within(c.level, bound(c.start), bound(c.limit))))
		})
	}
	require.Equal(t, []uint64{1, 2, 3}, numsOf(v.Within(1, nil, nil)), "the version is unchanged")
}

// bound returns a bound, nil for "".
func bound(s string) []byte {
	if s == "" {
		return nil
	}
	return []byte(s)
}

func TestOverlapsUser(t *testing.T) {
	f := file(1, "f", "m", 1)
	for _, c := range []struct {
		start, limit string // "": none
		want         bool
	}{
		{"", "", true}, {"a", "z", true}, {"g", "h", true},
		{"a", "e", false}, {"a", "f", true}, {"", "e", false}, {"", "f", true},
		{"m", "z", true}, {"n", "z", false}, {"m", "", true}, {"n", "", false},
	} {
		require.Equal(t, c.want, f.OverlapsUser(base.Bytewise, bound(c.start), bound(c.limit)), "%+v", c)
	}
}

func TestInvalidVersionsAreRefused(t *testing.T) {
	cases := map[string][]LevelFile{
		"tables of a level overlap":          {{1, file(1, "a", "m", 1)}, {1, file(2, "k", "z", 1)}},
		"a table on two levels":              {{1, file(1, "a", "b", 1)}, {2, file(1, "a", "b", 1)}},
		"a table that ends before it begins": {{1, file(1, "z", "a", 1)}},
	}
	for name, added := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := New(base.Bytewise, new(Owner)).Apply(Change{Added: added})
			require.ErrorIs(t, err, base.ErrCorruption)
		})
	}
}

func TestFilesBecomeObsoleteWithTheirLastVersion(t *testing.T) {
	var obsolete []LevelFile
	owner := &Owner{Obsolete: func(f []LevelFile) { obsolete = append(obsolete, f...) }}
	f1, f2 := file(1, "a", "b", 1), file(2, "c", "d", 1)
	v1 := result.Of(New(base.Bytewise, owner).Apply(Change{Added: []LevelFile{{1, f1}, {1, f2}}}))(t)
	v2 := result.Of(v1.Apply(Change{Deleted: []DeletedFile{{1, 1}}}))(t)
	require.True(t, v1.TryRef(), "a reader has a reference to v1")
	v1.Unref()
	require.Empty(t, obsolete)
	v1.Unref()
	require.Equal(t, []LevelFile{{1, f1}}, obsolete)
	require.False(t, v1.TryRef(), "v1 is gone")
	v2.Unref()
	require.Equal(t, []LevelFile{{1, f1}, {1, f2}}, obsolete)
}

func TestDisjointRuns(t *testing.T) {
	v := versionOf(t, nil)
	cases := []struct {
		name  string
		files []*FileMeta
		want  [][]uint64
	}{
		{"no table, no run", nil, nil},
		{"disjoint tables are one ascending run", []*FileMeta{file(3, "e", "f", 1), file(2, "c", "d", 1), file(1, "a", "b", 1)}, [][]uint64{{1, 2, 3}}},
		{"one common key makes two runs", []*FileMeta{file(1, "a", "c", 1), file(2, "c", "d", 1)}, [][]uint64{{1}, {2}}},
		{"a table that overlaps all is a separate run", []*FileMeta{file(9, "a", "z", 1), file(1, "b", "c", 1), file(2, "d", "e", 1), file(3, "f", "g", 1)}, [][]uint64{{9}, {1, 2, 3}}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var got [][]uint64
			for _, run := range v.DisjointRuns(c.files) {
				got = append(got, numsOf(run))
			}
			require.Equal(t, c.want, got)
		})
	}
}
