package db

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestInvalidResourcesAreRefused(t *testing.T) {
	for field, o := range map[string]ResourcesOptions{
		"MaxStores": {MaxStores: -1}, "CacheSize": {CacheSize: 1<<50 + 1}, "MaxOpenFiles": {MaxOpenFiles: 639},
		"MemtableSize": {MemtableSize: 64<<16 - 1}, "MaxConcurrent": {MaxConcurrent: 65},
	} {
		r, err := NewResources(o)
		require.ErrorContains(t, err, "sievedb: ResourcesOptions."+field+" is ")
		require.ErrorContains(t, err, "; it must be from ")
		require.Nil(t, r)
	}
}

func TestDefaultsOfResources(t *testing.T) {
	r, err := NewResources(ResourcesOptions{})
	require.NoError(t, err)
	m := r.Metrics()
	require.Equal(t, 64, m.MaxStores)
	require.EqualValues(t, 256<<20, m.Cache.Limit)
	require.EqualValues(t, 256<<20, m.Memtables.Limit)
	require.GreaterOrEqual(t, m.OpenFiles.Limit, int64(1000))
	require.GreaterOrEqual(t, m.Compactions.Limit, 2)
	require.EqualValues(t, m.OpenFiles.Limit, r.limits().MaxOpenFiles)
	many, err := NewResources(ResourcesOptions{MaxStores: 5000, MemtableSize: 1 << 30, CacheSize: -1})
	require.NoError(t, err)
	require.EqualValues(t, 50_000, many.Metrics().OpenFiles.Limit)
	require.Zero(t, many.Metrics().Cache.Limit)
}

func TestZeroAndNilResources(t *testing.T) {
	for _, r := range []*Resources{nil, {}} {
		require.Zero(t, *r.Metrics())
		require.Zero(t, r.limits())
	}
	part, err := (*Resources)(nil).join()
	require.NoError(t, err)
	require.Nil(t, part)
	_, err = new(Resources).join()
	require.ErrorContains(t, err, "make one with NewResources")
}

func TestPartsOfResourcesAreJoinedAndLeft(t *testing.T) {
	r, err := NewResources(ResourcesOptions{MaxStores: 1})
	require.NoError(t, err)
	part, err := r.join()
	require.NoError(t, err)
	_, err = r.join()
	require.ErrorContains(t, err, "1 stores are open")
	part.Leave()
	require.Zero(t, r.Metrics().Stores)
}
