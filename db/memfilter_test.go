package db

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/vfs"
)

func TestMemtableFiltersSaveSearches(t *testing.T) {
	const n = 2000
	o := testOptions(vfs.NewMem())
	o.Memtables.Size = 1 << 20
	d := openTest(t, o)
	fill(t, d, 0, n)
	require.NoError(t, d.Delete(testKey(0), NoSync))
	for i := range n {
		_, err := d.Get(testKey(i))
		require.Equal(t, i == 0, err == ErrNotFound)
	}
	m := d.Metrics()
	require.EqualValues(t, n, m.Lookups.MemtableHits, "including the tombstone")
	require.EqualValues(t, n, m.Lookups.MemtableSearches)
	for i := range n {
		_, err := d.Get(testKey(n + i))
		require.Equal(t, ErrNotFound, err)
	}
	m = d.Metrics()
	require.EqualValues(t, n, m.Lookups.MemtableHits)
	require.Less(t, m.Lookups.MemtableSearches, uint64(n+n/20), "the filter denies nearly all of the absent keys")

	step := func(key []byte) ExplainStep {
		x, err := d.Explain(key)
		require.NoError(t, err)
		require.Len(t, x.Steps, 1)
		return x.Steps[0]
	}
	denied := 0
	for i := range 100 {
		require.Equal(t, "maybe", step(testKey(i)).Filter)
		require.True(t, step(testKey(i)).Found)
		if step(testKey(n+i)).Filter == "absent" {
			denied++
		}
	}
	require.Greater(t, denied, 80)
	require.NoError(t, d.Flush())
	x, err := d.Explain(testKey(1))
	require.NoError(t, err)
	require.Equal(t, "none", x.Steps[0].Filter, "an empty memtable needs no filter")
}

// The filter is part of the memtable's size.
func TestMemtablesAndTheirFiltersKeepToTheLimit(t *testing.T) {
	for _, size := range []int{16 << 10, 100_000, 8 << 20} {
		o := testOptions(vfs.NewMem())
		o.Memtables.Size = size
		m := openTest(t, o).Metrics()
		require.Greater(t, m.Memtables.Bytes, uint64(size-80))
		require.LessOrEqual(t, m.Memtables.Bytes, uint64(size))
	}
}

func TestMemtablesOfInexactComparersAreSearched(t *testing.T) {
	o := testOptions(vfs.NewMem())
	o.Filters.Policy = filter.None
	o.Comparer = &Comparer{
		Name:         "test.Caseless",
		Compare:      func(a, b []byte) int { return bytes.Compare(bytes.ToLower(a), bytes.ToLower(b)) },
		InexactEqual: true,
	}
	d := openTest(t, o)
	require.NoError(t, d.Put([]byte("Key"), []byte("v"), NoSync))
	requireValue(t, d, []byte("kEY"), []byte("v"))
	x, err := d.Explain([]byte("kEY"))
	require.NoError(t, err)
	require.Equal(t, "none", x.Steps[0].Filter)
	require.NoError(t, d.Flush())
	requireValue(t, d, []byte("keY"), []byte("v"))
}
