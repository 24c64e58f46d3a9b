package sstable

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/test/result"
)

var (
	lines   = filter.NewCacheLineBloomPolicy(10)
	dual    = filter.NewDualBloomPolicy(10)
	ourKind = []filter.Policy{lines, bloom, filter.LegacyBloom} // what a store reads
)

// filterHandles returns the handles of filters in the metaindex.
func filterHandles(t testing.TB, data []byte) map[string]handle {
	r, _ := openTable(t, data, ReaderOptions{})
	m := result.Of(r.readMetaindex())(t)
	return m.filters
}

func requireSortedMetaindex(t *testing.T, data []byte) {
	t.Helper()
	_, keys := withMetaindex(t, data, func(key string) string { return key })
	require.IsIncreasing(t, keys, "LevelDB searches the metaindex: it must be sorted")
}

func TestATableHasAFilterOfEachPolicy(t *testing.T) {
	es := plainEntries(500, 50)
	own := constPolicy{answer: true}
	data := buildTable(t, WriterOptions{
		Filter:        filter.Several(lines, own, bloom),
		FilterAliases: map[string]string{bloom.Name(): filter.LegacyBloom.Name()},
	}, es)
	handles := filterHandles(t, data)
	require.Len(t, handles, 4)
	require.Equal(t, handles[bloom.Name()], handles[filter.LegacyBloom.Name()])
	for _, p := range []filter.Policy{lines, own, bloom} {
		alone := buildTable(t, WriterOptions{Filter: p}, es)
		h, only := handles[p.Name()], filterHandles(t, alone)[p.Name()]
		require.Equal(t, alone[only.Offset:only.End()], data[h.Offset:h.End()], "%s is the same as it would be alone", p.Name())
	}
	require.Equal(t, buildTable(t, WriterOptions{Filter: filter.Several(lines, bloom)}, es), buildTable(t, WriterOptions{Filter: dual}, es))

	r, _ := openTable(t, data, ReaderOptions{})
	requireSortedMetaindex(t, data)
	p, ok := r.Properties()
	require.True(t, ok)
	require.EqualValues(t, 500, p.FilterKeys, "keys, not keys times filters")
	require.Empty(t, filterHandles(t, buildTable(t, WriterOptions{Filter: dual}, nil)), "an empty table has none")
}

// A Reader reads the best filter that it knows, and no other. If there is none, its status says why.
func TestOnlyTheBestFilterIsRead(t *testing.T) {
	es := plainEntries(500, 50)
	fuse := filter.FusePolicy{}
	whole := func(p filter.Policy) FilterStatus { return FilterStatus{State: FilterWholeTable, Policy: p.Name()} }
	unknown := func(p filter.Policy) FilterStatus { return FilterStatus{State: FilterUnknown, Policy: p.Name()} }
	for _, c := range []struct {
		claim    string
		writer   filter.Policy
		policies []filter.Policy
		want     FilterStatus
		vain     string // the name of a filter that is read in vain
	}{
		{"cache lines before LevelDB's", dual, ourKind, whole(lines), ""},
		{"the order is the reader's", dual, []filter.Policy{bloom, lines}, whole(bloom), ""},
		{"a reader that knows one uses it", dual, []filter.Policy{nil, constPolicy{}, filter.LegacyBloom, bloom}, whole(bloom), ""},
		{"no policies", bloom, []filter.Policy{filter.None, nil}, FilterStatus{State: FilterOff}, ""},
		{"an unknown name", bloom, []filter.Policy{constPolicy{}}, unknown(bloom), ""},
		{"a table without", filter.None, []filter.Policy{bloom}, FilterStatus{State: FilterMissing}, ""},
		{"of a later version, and the next one", filter.Several(newer{lines}, bloom), ourKind, whole(bloom), lines.Name()},
		{"of a later version alone", newer{lines}, ourKind, unknown(lines), ""},
		{"fuse, known", fuse, []filter.Policy{lines, bloom, fuse}, whole(fuse), ""},
		{"fuse, unknown", fuse, []filter.Policy{bloom}, unknown(fuse), ""},
		{"fuse with LevelDB's, both known", filter.Several(fuse, bloom), []filter.Policy{fuse, bloom}, whole(fuse), ""},
		{"fuse with LevelDB's, only that known", filter.Several(fuse, bloom), ourKind, whole(bloom), ""},
		{"fuse with cache lines", filter.Several(fuse, lines), []filter.Policy{lines, fuse}, whole(lines), ""},
	} {
		t.Run(c.claim, func(t *testing.T) {
			data := buildTable(t, WriterOptions{Filter: unchecked(c.writer)}, es)
			r, f := openInPieces(t, data, ReaderOptions{Policies: c.policies})
			require.Equal(t, c.want, r.FilterStatus())
			reads, handles := f.takeReads(), filterHandles(t, data)
			for name, other := range handles {
				if name != c.want.Policy && name != c.vain {
					require.False(t, touches(reads, other.Offset, other.End()), "%s was read", name)
				}
			}
			require.Zero(t, r.IndexSize())
			denied := negatives(t, r, es)
			require.NotZero(t, r.IndexSize())
			if c.want.State == FilterWholeTable {
				require.EqualValues(t, handles[c.want.Policy].Size+blockTrailerLen, r.FilterSize())
				require.Greater(t, denied, 400)
			} else {
				require.Zero(t, r.FilterSize())
				require.Zero(t, denied)
			}
		})
	}
	r, _ := openTable(t, buildTable(t, WriterOptions{Filter: bloom}, nil), ReaderOptions{Policies: []filter.Policy{bloom}})
	require.Equal(t, FilterStatus{State: FilterMissing}, r.FilterStatus(), "an empty table")
	_, err := Open(&memFile{data: buildTable(t, WriterOptions{}, es)}, ReaderOptions{Policies: make([]filter.Policy, MaxPolicies+1)})
	require.Error(t, err)
}

// If one filter is damaged, the table's other one is used.
func TestADamagedFilterIsReplacedByTheNextOne(t *testing.T) {
	es := plainEntries(500, 50)
	sound := buildTable(t, WriterOptions{Filter: dual}, es)
	handles := filterHandles(t, sound)
	damage := func(names ...string) []byte {
		data := bytes.Clone(sound)
		for _, name := range names {
			data[handles[name].Offset+7] ^= 4
		}
		return data
	}
	for _, c := range []struct {
		claim    string
		data     []byte
		policies []filter.Policy
		state    FilterState
		policy   string
		damaged  bool
	}{
		{"none", sound, ourKind, FilterWholeTable, lines.Name(), false},
		{"the best", damage(lines.Name()), ourKind, FilterWholeTable, bloom.Name(), true},
		{"the second, which is not read", damage(bloom.Name()), ourKind, FilterWholeTable, lines.Name(), false},
		{"both", damage(lines.Name(), bloom.Name()), ourKind, FilterDamaged, lines.Name(), true},
		{"the only one known", damage(lines.Name()), []filter.Policy{lines}, FilterDamaged, lines.Name(), true},
	} {
		t.Run(c.claim, func(t *testing.T) {
			r, _ := openTable(t, c.data, ReaderOptions{Policies: c.policies})
			st := r.FilterStatus()
			require.Equal(t, c.state, st.State)
			require.Equal(t, c.policy, st.Policy)
			if c.damaged {
				require.ErrorIs(t, st.Err, base.ErrCorruption)
				require.Contains(t, st.Err.Error(), "filter block at offset")
			} else {
				require.NoError(t, st.Err)
			}
			denied := negatives(t, r, es)
			require.Equal(t, c.state == FilterWholeTable, denied > 400, "%d", denied)
			_, err := r.AllFilters()
			_, rep := salvageAll(t, c.data, ReaderOptions{Policies: c.policies})
			if bytes.Equal(c.data, sound) {
				require.NoError(t, err)
				require.NoError(t, rep.Err)
			} else {
				require.ErrorIs(t, err, base.ErrCorruption, "AllFilters reads all of them")
				require.ErrorIs(t, rep.Err, base.ErrCorruption)
			}
		})
	}
}

// newer is a policy of a later version of the cache-line filters.
type newer struct{ filter.BloomPolicy }

func (p newer) NewGenerator() filter.Generator { return newerGenerator{p.BloomPolicy.NewGenerator()} }

type newerGenerator struct{ filter.Generator }

func (g newerGenerator) AppendFilter(dst []byte) []byte {
	dst = g.Generator.AppendFilter(dst)
	dst[len(dst)-1]++
	return dst
}

func TestAllFiltersNameTheOneThatDeniesAKey(t *testing.T) {
	es := plainEntries(50, 50)
	data := buildTable(t, WriterOptions{Filter: unchecked(filter.Several(lines, constPolicy{}))}, es)
	r, _ := openTable(t, data, ReaderOptions{Policies: []filter.Policy{lines, constPolicy{answer: false}}})
	require.Equal(t, lines.Name(), r.FilterStatus().Policy, "lookups do not use the wrong filter")
	set := result.Of(r.AllFilters())(t)
	name, denied := set.Denies(base.UserKey(es[0].Key), 0)
	require.True(t, denied)
	require.Equal(t, "test.Const", name)
	_, rep := salvageAll(t, data, ReaderOptions{Policies: []filter.Policy{lines, constPolicy{answer: false}}})
	require.ErrorContains(t, rep.Err, `the filter "test.Const" denies a key`)

	require.NoError(t, r.Close())
	require.ErrorIs(t, result.Err(r.AllFilters()), ErrReaderClosed)
}

func TestLinesOfALoadedFilterAreCacheLines(t *testing.T) {
	for n := range 3000 {
		b := alignedBytes(n)
		require.Len(t, b, n)
		require.Zero(t, misaligned(b[:n:n]), "%d bytes", n)
	}
	for _, n := range []int{1, 10, 77, 500, 3000} {
		data := buildTable(t, WriterOptions{Filter: lines}, plainEntries(n, 1))
		r, _ := openTable(t, data, ReaderOptions{Policies: ourKind})
		require.Zero(t, misaligned(r.filter.filter), "%d keys", n)
	}
}

func TestPoliciesWithTheSameHashShareIt(t *testing.T) {
	fuse := filter.FusePolicy{}
	policies := []filter.Policy{bloom, lines, filter.LegacyBloom, fuse}
	es := plainEntries(500, 50)
	var lk Lookup
	lk.Init([]byte("absent"), base.MaxSeq)
	for i, c := range []struct {
		writer filter.Policy
		hashed uint16
	}{{fuse, 0b0010}, {lines, 0b0010}, {bloom, 0b0011}} {
		r, _ := openTable(t, buildTable(t, WriterOptions{Filter: c.writer}, es), ReaderOptions{Policies: policies})
		r.filter.mayContain(&lk)
		require.Equal(t, c.hashed, lk.hashed, "after table %d", i)
	}
}
