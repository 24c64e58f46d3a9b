package filterplan

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/pick"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/internal/test/result"
)

// fakeStore is a version with a table on each level that has keys. The tables' sizes are known after Learn.
type fakeStore struct {
	version *version.Version
	sizes   map[uint64]Sizes
	learned map[uint64]bool
}

func (s *fakeStore) RefCurrent() *version.Version {
	s.version.TryRef()
	return s.version
}

func (s *fakeStore) Sizes(f *version.FileMeta) (Sizes, bool) {
	return s.sizes[f.Num], s.learned[f.Num]
}
func (s *fakeStore) Learn(f *version.FileMeta) { s.learned[f.Num] = true }

func newFakeStore(t *testing.T, keys map[int]uint64) *fakeStore {
	s := &fakeStore{sizes: map[uint64]Sizes{}, learned: map[uint64]bool{}}
	var edit version.Change
	for level, n := range keys {
		num := uint64(level + 1)
		ikey := base.AppendInternalKey(nil, []byte{byte(level)}, num, base.KindSet)
		edit.Added = append(edit.Added, version.LevelFile{Level: level, File: version.NewFileMeta(num, 100*n, ikey, ikey)})
		s.sizes[num] = Sizes{Keys: n, FilterBytes: n * 10 / 8}
	}
	v := result.Of(version.New(base.Bytewise, new(version.Owner)).Apply(edit))(t)
	s.version = v
	return s
}

var fourLevels = map[int]uint64{3: 1_000, 4: 10_000, 5: 100_000, 6: 1_000_000}

func TestDefaultFilterHasMoreBitsAboveTheLastLevel(t *testing.T) {
	s := newFakeStore(t, fourLevels)
	p := New(Options{Filter: filter.NewDualBloomPolicy(10), DefaultBits: 10}, s)
	require.True(t, p.ByLevel())
	require.False(t, p.HasBudget())
	require.Equal(t, []Bits{15, 15, 15, 15, 15, 15, 10}, p.LevelBits())
	require.Equal(t, Bits(15), p.FlushBits(100))
	require.Equal(t, Bits(10), p.LoadBits(100))
	require.Equal(t, Bits(15), p.CompactionBits(&pick.Compaction{Version: s.version, OutputLevel: 5}))
	require.Equal(t, Bits(10), p.CompactionBits(&pick.Compaction{Version: s.version, OutputLevel: 6}))
	require.Empty(t, s.learned, "no table is opened")
}

func TestBudgetIsSpentAndFavoursUpperLevels(t *testing.T) {
	for _, c := range []struct {
		name   string
		policy filter.Policy
		perBit float64
	}{{"cache lines", filter.NewCacheLineBloomPolicy(10), 1}, {"binary fuse", filter.NewFusePolicy(7), 1.17}} {
		t.Run(c.name, func(t *testing.T) { requireBudgetSpent(t, c.policy, c.perBit) })
	}
}

func requireBudgetSpent(t *testing.T, policy filter.Policy, perBit float64) {
	s := newFakeStore(t, fourLevels)
	const budget = 1_111_000 // bytes: 8 bits for each key
	p := New(Options{Filter: policy, Budget: budget, L0CompactionTrigger: 4}, s)
	require.True(t, p.HasBudget())
	bits := p.LevelBits()
	require.Len(t, s.learned, 4, "the tables of unknown sizes")
	spent := 0.0
	for level, n := range fourLevels {
		spent += float64(bits[level]) * perBit * float64(n) / 8
		if level < 6 {
			require.Greater(t, bits[level], bits[level+1], "level %d", level)
		}
	}
	require.Less(t, spent, float64(budget))
	require.Greater(t, spent, (1-2*budgetReserve)*budget)
}

func TestOnlyACompactionOfEverythingLeavesLittleForLevel0(t *testing.T) {
	s := newFakeStore(t, map[int]uint64{6: 1_000_000})
	p := New(Options{Filter: filter.NewCacheLineBloomPolicy(10), Budget: 1_000_000, L0CompactionTrigger: 4}, s)
	p.FlushBits(100_000) // four of these would need half of the budget
	c := &pick.Compaction{Version: s.version, OutputLevel: 6, Inputs: s.version.Levels[6].Files, TableSize: 10_000_000}
	require.Less(t, p.CompactionBits(c), Bits(6))
	c.Reason = pick.ReasonManual
	require.InDelta(t, 0.93*8, float64(p.CompactionBits(c)), 0.05)
}

func TestAboveTheBudgetNewFiltersGetFewerBits(t *testing.T) {
	c := func(s *fakeStore) *pick.Compaction {
		return &pick.Compaction{Version: s.version, OutputLevel: 5}
	}
	last := Bits(100)
	for _, budget := range []int64{3_000_000, 1_500_000, 1_200_000, 900_000} {
		s := newFakeStore(t, fourLevels)
		p := New(Options{Filter: filter.NewCacheLineBloomPolicy(10), Budget: budget, L0CompactionTrigger: 4}, s)
		bits := p.CompactionBits(c(s))
		require.LessOrEqual(t, bits, last, "budget %d", budget)
		last = bits
	}
	require.Zero(t, last, "the existing filters have 1.4 MB, far above the budget: new tables get none")
}
