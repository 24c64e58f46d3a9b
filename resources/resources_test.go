package resources

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestInvalidOptionsAreRefused(t *testing.T) {
	for field, o := range map[string]Options{
		"MaxStores": {MaxStores: -1}, "CacheSize": {CacheSize: 1<<50 + 1}, "MaxOpenFiles": {MaxOpenFiles: 639},
		"MemtableSize": {MemtableSize: 64<<16 - 1}, "MaxConcurrent": {MaxConcurrent: 65},
	} {
		r, err := New(o)
		require.ErrorContains(t, err, "sievedb: ResourcesOptions."+field+" is ")
		require.ErrorContains(t, err, "; it must be from ")
		require.Nil(t, r)
	}
}

func TestDefaults(t *testing.T) {
	r, err := New(Options{})
	require.NoError(t, err)
	m := r.Metrics()
	require.Equal(t, 64, m.MaxStores)
	require.EqualValues(t, 256<<20, m.Cache.Limit)
	require.EqualValues(t, 256<<20, m.Memtables.Limit)
	require.GreaterOrEqual(t, m.OpenFiles.Limit, int64(1000))
	require.GreaterOrEqual(t, m.Compactions.Limit, 2)
	require.EqualValues(t, m.OpenFiles.Limit, r.Limits().MaxOpenFiles)
	many, err := New(Options{MaxStores: 5000, MemtableSize: 1 << 30, CacheSize: -1})
	require.NoError(t, err)
	require.EqualValues(t, 50_000, many.Metrics().OpenFiles.Limit)
	require.Zero(t, many.Metrics().Cache.Limit)
}

func TestZeroAndNil(t *testing.T) {
	for _, r := range []*Resources{nil, {}} {
		require.Zero(t, *r.Metrics())
		require.Zero(t, r.Limits())
	}
	part, err := (*Resources)(nil).Join()
	require.NoError(t, err)
	require.Nil(t, part)
	_, err = new(Resources).Join()
	require.ErrorContains(t, err, "make one with NewResources")
}

func TestPartsAreJoinedAndLeft(t *testing.T) {
	r, err := New(Options{MaxStores: 1})
	require.NoError(t, err)
	part, err := r.Join()
	require.NoError(t, err)
	_, err = r.Join()
	require.ErrorContains(t, err, "1 stores are open")
	part.Leave()
	require.Zero(t, r.Metrics().Stores)
}
