package sstable

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/filter/rangefilter"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/test/result"
)

var (
	ofEight = rangefilter.NewPrefix(rangefilter.FixedPrefix(8), 20)
	ofTen   = rangefilter.NewPrefix(rangefilter.FixedPrefix(10), 20)
)

// rangeHandles returns the handles of range filters in the metaindex.
func rangeHandles(t testing.TB, data []byte) map[string]handle {
	r, _ := openTable(t, data, ReaderOptions{})
	m := result.Of(r.readMetaindex())(t)
	return m.ranges
}

func asksRange(r *Reader, lower, upper string) (may, consulted bool) {
	return r.RangeMayMatch([]byte(lower), []byte(upper))
}

func TestATableHasARangeFilterOfEachPolicy(t *testing.T) {
	es := plainEntries(500, 50) // key00000000 to key00000998
	plain := buildTable(t, WriterOptions{Filter: dual}, es)
	data := buildTable(t, WriterOptions{Filter: dual, RangeFilters: []rangefilter.Policy{ofTen, ofEight}}, es)
	require.Equal(t, len(filterHandles(t, plain)), len(filterHandles(t, data)), "range filters are not listed as filters of keys")
	require.Len(t, rangeHandles(t, data), 2)
	require.Empty(t, rangeHandles(t, plain))
	require.Empty(t, rangeHandles(t, buildTable(t, WriterOptions{RangeFilters: []rangefilter.Policy{ofTen}}, nil)), "an empty table has none")

	r, _ := openTable(t, data, ReaderOptions{Policies: ourKind})
	requireSortedMetaindex(t, data)
	require.Equal(t, lines.Name(), r.FilterStatus().Policy)
	_, consulted := asksRange(r, "key0000009", "key000000:")
	require.False(t, consulted, "no range policy is known")
	require.Zero(t, r.RangeFilterSize())
	all := r.RangeFilters()
	require.Equal(t, []string{ofTen.Name(), ofEight.Name()}, []string{all[0].Policy, all[1].Policy}, "but their names are")
	require.Equal(t, ErrRangeUnknown, all[0].Err)
	result.Of(r.AllFilters())(t)
}

func TestRangeMayMatchUsesAllKnownRangeFilters(t *testing.T) {
	data := buildTable(t, WriterOptions{RangeFilters: []rangefilter.Policy{ofTen, ofEight}}, plainEntries(500, 50))
	for _, c := range []struct {
		claim          string
		policies       []rangefilter.Policy
		lower, upper   string
		may, consulted bool
	}{
		{"held", []rangefilter.Policy{ofTen, ofEight}, "key0000009", "key000000:", true, true},
		{"not held", []rangefilter.Policy{ofTen, ofEight}, "key0000109", "key000010:", false, true},
		{"longer than one filter's prefix", []rangefilter.Policy{ofTen, ofEight}, "key00011", "key00012", false, true},
		{"by one that cannot decide", []rangefilter.Policy{ofTen}, "key00011", "key00012", true, true},
		{"of another policy", []rangefilter.Policy{rangefilter.NewPrefix(rangefilter.FixedPrefix(9), 20)}, "key0000109", "key000010:", true, false},
		{"of none", nil, "key0000109", "key000010:", true, false},
	} {
		t.Run(c.claim, func(t *testing.T) {
			r, f := openTable(t, data, ReaderOptions{RangePolicies: c.policies})
			require.LessOrEqual(t, r.OpenCost().Reads, uint64(1), "the range filters are in the tail")
			f.takeReads()
			may, consulted := asksRange(r, c.lower, c.upper)
			require.Equal(t, c.may, may)
			require.Equal(t, c.consulted, consulted)
			require.Empty(t, f.takeReads())
		})
	}
}

func TestADamagedRangeFilterRulesNothingOut(t *testing.T) {
	es := plainEntries(500, 50)
	o := ReaderOptions{Policies: ourKind, RangePolicies: []rangefilter.Policy{ofEight, ofTen}}
	data := buildTable(t, WriterOptions{Filter: dual, RangeFilters: []rangefilter.Policy{ofTen, ofEight}}, es)
	data[rangeHandles(t, data)[ofEight.Name()].Offset] ^= 1
	r, _ := openTable(t, data, o)
	may, consulted := asksRange(r, "key00011", "key00012")
	require.True(t, may && consulted)
	may, _ = asksRange(r, "key0000109", "key000010:")
	require.False(t, may, "the other filter does")
	all := r.RangeFilters()
	require.Len(t, all, 2)
	require.ErrorIs(t, all[0].Err, base.ErrCorruption)
	require.ErrorContains(t, all[0].Err, "range filter block at offset")
	require.NoError(t, all[1].Err)
	require.Equal(t, FilterWholeTable, r.FilterStatus().State)
	set, err := r.AllFilters()
	require.ErrorIs(t, err, base.ErrCorruption, "AllFilters reports it")
	sound := 0
	for _, p := range o.RangePolicies {
		if set.HasRanges([]rangefilter.Policy{p}) {
			sound++
		}
	}
	require.Equal(t, 1, sound)
	_, rep := salvageAll(t, data, o)
	require.ErrorIs(t, rep.Err, base.ErrCorruption)
}

// later writes filters of an unknown version, and liar filters that deny all ranges.
type (
	later struct{ rangefilter.Prefix }
	liar  struct{ rangefilter.Prefix }
)

type fixedRange []byte

func (fixedRange) Add([]byte)                               {}
func (fixedRange) Reset()                                   {}
func (f fixedRange) AppendChecked(dst []byte) ([]byte, int) { return append(dst, f...), 0 }
func (later) NewGenerator() rangefilter.Generator           { return fixedRange{1, 2, 3} }
func (p liar) NewGenerator() rangefilter.Generator {
	return fixedRange(must(p.Prefix.NewGenerator().AppendChecked(nil)))
}

func must(b []byte, _ int) []byte { return b }

func TestARangeFilterOfALaterVersionIsIgnored(t *testing.T) {
	data := buildTable(t, WriterOptions{RangeFilters: []rangefilter.Policy{later{ofTen}}}, plainEntries(500, 50))
	r, _ := openTable(t, data, ReaderOptions{RangePolicies: []rangefilter.Policy{ofTen}})
	may, consulted := asksRange(r, "key0000109", "key000010:")
	require.True(t, may)
	require.False(t, consulted)
	require.Error(t, r.RangeFilters()[0].Err)
	require.NoError(t, result.Err(r.AllFilters()), "an unknown version is not damage")
}

// A range filter was checked only if ReaderOptions had its policy.
func TestSalvageFindsARangeFilterThatDeniesAKey(t *testing.T) {
	data := buildTable(t, WriterOptions{RangeFilters: []rangefilter.Policy{liar{ofTen}}}, plainEntries(50, 50))
	for _, policies := range [][]rangefilter.Policy{{ofTen}, nil} {
		r, _ := openTable(t, data, ReaderOptions{RangePolicies: policies})
		set := result.Of(r.FiltersToCheck(nil))(t)
		name, denied := set.Denies([]byte("key00000002"), 0)
		require.True(t, denied)
		require.Equal(t, ofTen.Name(), name)
		_, rep := salvageAll(t, data, ReaderOptions{RangePolicies: policies})
		require.ErrorContains(t, rep.Err, "denies a key")
	}
}

// A table could list one large block as range filters under a thousand known names, and
// Salvage read and kept it a thousand times.
func TestSalvageReadsABoundedNumberOfRangeFilters(t *testing.T) {
	es := plainEntries(50, 50)
	var many []rangefilter.Policy
	for n := range 200 {
		many = append(many, rangefilter.NewPrefix(rangefilter.FixedPrefix(n+1), 20))
	}
	for n, ok := range map[int]bool{MaxRangePolicies: true, MaxRangePolicies + 1: false, len(many): false} {
		data := buildTable(t, WriterOptions{RangeFilters: many[:n]}, es)
		for _, policies := range [][]rangefilter.Policy{nil, {ofTen}, many[:MaxRangePolicies]} {
			r, _ := openTable(t, data, ReaderOptions{RangePolicies: policies})
			set, err := r.FiltersToCheck(nil)
			probes := 0
			for _, f := range set.ranges {
				if f.probe != nil {
					probes++
				}
			}
			require.Equal(t, MaxRangePolicies, probes)
			_, rep := salvageAll(t, data, ReaderOptions{RangePolicies: policies})
			require.Equal(t, uint64(len(es)), rep.Entries)
			if ok {
				require.NoError(t, err)
				require.NoError(t, rep.Err)
				continue
			}
			require.ErrorIs(t, err, base.ErrCorruption)
			require.ErrorContains(t, err, "want at most 4")
			require.ErrorIs(t, rep.Err, base.ErrCorruption)
			require.NoError(t, result.Err(r.AllFilters()), "the configured policies are few")
		}
	}
}

func TestCopiesAndReusedWritersMakeTheSameRangeFilters(t *testing.T) {
	es := plainEntries(500, 50)
	o := WriterOptions{RangeFilters: []rangefilter.Policy{ofTen}}
	want := buildTable(t, o, es)
	r, _ := openTable(t, buildTable(t, WriterOptions{}, es), ReaderOptions{})
	var file bytes.Buffer
	w := NewWriter(&file, o)
	require.NoError(t, w.CopyBlocks(r, nil))
	finish(t, w)
	require.Equal(t, want, file.Bytes())
	file.Reset()
	w.Reset(&file)
	addAll(t, w, es)
	finish(t, w)
	require.Equal(t, want, file.Bytes())
}

// Whatever byte of a table is damaged, no range filter denies a key of the table.
func TestNoDamageMakesARangeFilterDenyAKey(t *testing.T) {
	es := plainEntries(40, 10)
	policies := []rangefilter.Policy{ofTen, rangefilter.NewGrafite(rangefilter.FixedPrefix(3), rangefilter.Decimal(8), 10)}
	sound := buildTable(t, WriterOptions{RangeFilters: policies}, es)
	consulted := 0
	for i := range sound {
		data := bytes.Clone(sound)
		data[i] ^= 0x55
		r, err := Open(&memFile{data: data}, ReaderOptions{RangePolicies: policies})
		if err != nil {
			continue
		}
		for _, e := range es {
			user := base.UserKey(e.Key)
			may, ok := r.RangeMayMatch(user, append(bytes.Clone(user), 0))
			require.True(t, may, "byte %d of %d", i, len(sound))
			if ok {
				consulted++
			}
		}
		require.NoError(t, r.Close())
	}
	require.Positive(t, consulted)
}
