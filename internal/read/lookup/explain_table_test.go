package lookup

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/test/tabletest"
	"github.com/sievedb/sievedb/report"
	"github.com/sievedb/sievedb/sstable"
)

func TestTableStepDescribesTheLookup(t *testing.T) {
	s := tabletest.New(t, filter.NewCacheLineBloomPolicy(20))
	f := s.Add(3, 7, "value", 1, 2, 5)
	look := func(n int) (report.ExplainStep, sstable.Result) {
		var lookup sstable.Lookup
		defer lookup.Release()
		lookup.Init(tabletest.Key(n), 9)
		step, res, err := explainTable(s.Cache, &lookup, 3, f)
		require.NoError(t, err)
		return step, res
	}
	step, res := look(2)
	require.Equal(t, "value", string(res.Value))
	require.True(t, step.Opened && step.Found && step.IndexSearched && step.BlockFromDisk)
	require.Positive(t, step.OpeningReads)
	require.Equal(t, "maybe", step.Filter)
	require.Equal(t, tabletest.Key(1), step.Smallest)
	require.Equal(t, tabletest.Key(5), step.Largest)

	step, res = look(3)
	require.False(t, step.Opened || step.Found || step.IndexSearched || res.Found)
	require.Equal(t, "absent", step.Filter)
	require.Equal(t, "sievedb.CacheLineBloom", step.FilterPolicy)
}

func TestMemtableNames(t *testing.T) {
	require.Equal(t, report.ExplainStep{Run: "memtable", Level: -1, Filter: "none"}, explainMemtable(0, false, true, false))
	require.Equal(t, report.ExplainStep{Run: "immutable memtable", Level: -1, Filter: "absent"}, explainMemtable(1, true, true, false))
	require.Equal(t, report.ExplainStep{Run: "immutable memtable", Level: -1, Filter: "maybe", Found: true}, explainMemtable(2, true, false, true))
}

func TestAnExplanationAddsUpItsSteps(t *testing.T) {
	steps := []report.ExplainStep{
		{Run: "memtable", Filter: "absent"},
		{Run: "table", Filter: "absent", Opened: true, OpeningReads: 2, OpeningBytes: 900},
		{Run: "table", Filter: "maybe", IndexRead: true, BlockFromDisk: true, BytesRead: 4070},
		{Run: "table", Filter: "maybe", BlockFromDisk: true, BytesRead: 4000, Found: true},
	}
	x := (&Explained{Steps: steps, Kind: base.KindSet}).Explanation()
	require.Equal(t, []any{true, false, 3, uint64(8070), 2, uint64(900)}, []any{x.Found, x.Deleted, int(x.DiskReads), x.BytesRead, int(x.OpeningReads), x.OpeningBytes})
	require.EqualValues(t, 1, x.ReadsSaved)
	require.EqualValues(t, 1, x.ReadsWasted)
	require.True(t, (&Explained{Steps: steps, Kind: base.KindDelete}).Explanation().Deleted)
	require.Equal(t, []report.ExplainStep{}, (&Explained{}).Explanation().Steps, "not null as JSON")
}
