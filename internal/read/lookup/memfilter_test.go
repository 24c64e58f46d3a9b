package lookup_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/storetest"
	"github.com/sievedb/sievedb/report"
	"github.com/sievedb/sievedb/vfs"
)

func TestMemtableFiltersSaveSearches(t *testing.T) {
	const n = 2000
	o := storetest.Options(vfs.NewMem())
	o.Memtables.Size = 1 << 20
	d := storetest.Open(t, o)
	storetest.Fill(t, d, 0, n)
	require.NoError(t, d.Delete(fixture.Key(0), db.NoSync))
	for i := range n {
		_, err := d.Get(fixture.Key(i))
		require.Equal(t, i == 0, err == db.ErrNotFound)
	}
	m := d.Metrics()
	require.EqualValues(t, n, m.Lookups.MemtableHits, "including the tombstone")
	require.EqualValues(t, n, m.Lookups.MemtableSearches)
	for i := range n {
		_, err := d.Get(fixture.Key(n + i))
		require.Equal(t, db.ErrNotFound, err)
	}
	m = d.Metrics()
	require.EqualValues(t, n, m.Lookups.MemtableHits)
	require.Less(t, m.Lookups.MemtableSearches, uint64(n+n/20), "the filter denies nearly all of the absent keys")

	step := func(key []byte) report.ExplainStep {
		x := storetest.Explain(t, d, key)
		require.Len(t, x.Steps, 1)
		return x.Steps[0]
	}
	denied := 0
	for i := range 100 {
		require.Equal(t, "maybe", step(fixture.Key(i)).Filter)
		require.True(t, step(fixture.Key(i)).Found)
		if step(fixture.Key(n+i)).Filter == "absent" {
			denied++
		}
	}
	require.Greater(t, denied, 80)
	require.NoError(t, d.Flush())
	x := storetest.Explain(t, d, fixture.Key(1))
	require.Equal(t, "none", x.Steps[0].Filter, "an empty memtable needs no filter")
}

// The filter is part of the memtable's size.
func TestMemtablesAndTheirFiltersKeepToTheLimit(t *testing.T) {
	for _, size := range []int{16 << 10, 100_000, 8 << 20} {
		o := storetest.Options(vfs.NewMem())
		o.Memtables.Size = size
		m := storetest.Open(t, o).Metrics()
		require.Greater(t, m.Memtables.Bytes, uint64(size-80))
		require.LessOrEqual(t, m.Memtables.Bytes, uint64(size))
	}
}

func TestMemtablesOfInexactComparersAreSearched(t *testing.T) {
	o := storetest.Options(vfs.NewMem())
	o.Filters.Policy = filter.None
	o.Comparer = &db.Comparer{
		Name:         "test.Caseless",
		Compare:      func(a, b []byte) int { return bytes.Compare(bytes.ToLower(a), bytes.ToLower(b)) },
		InexactEqual: true,
	}
	d := storetest.Open(t, o)
	require.NoError(t, d.Put([]byte("Key"), []byte("v"), db.NoSync))
	storetest.RequireValue(t, d, []byte("kEY"), []byte("v"))
	x := storetest.Explain(t, d, []byte("kEY"))
	require.Equal(t, "none", x.Steps[0].Filter)
	require.NoError(t, d.Flush())
	storetest.RequireValue(t, d, []byte("keY"), []byte("v"))
}
