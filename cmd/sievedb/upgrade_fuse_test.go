package main

import (
	"bytes"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/sstable"
	"github.com/sievedb/sievedb/vfs"
)

// slotBitsIn returns the bits of the slots of the binary fuse filter of the directory's only table.
func slotBitsIn(t *testing.T, dir string, keys uint64) (fitting []int) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.ldb"))
	require.NoError(t, err)
	require.Len(t, paths, 1)
	f, err := vfs.OS.Open(paths[0])
	require.NoError(t, err)
	r, err := sstable.Open(f, sstable.ReaderOptions{Policies: []filter.Policy{filter.FusePolicy{}}})
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Close()) }()
	set, err := r.AllFilters()
	require.NoError(t, err)
	filters, ok := set.Whole()
	require.True(t, ok)
	for bits := 1; bits <= filter.MaxFuseBits; bits++ {
		if filter.NewFusePolicy(bits).Fits(filters[filter.FusePolicy{}.Name()], keys) {
			fitting = append(fitting, bits)
		}
	}
	return fitting
}

// Each width is another filter under the same name, and a second upgrade to it changes nothing.
func TestUpgradeFiltersChoosesTheSlotsOfFuseFilters(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	store, err := db.Open(dir, nil)
	require.NoError(t, err)
	const keys = 5 // so few that all sizes are near each other
	for i := range keys {
		require.NoError(t, store.Put(fmt.Append(nil, i), bytes.Repeat([]byte("value"), i), nil))
	}
	require.NoError(t, store.Close())
	works(t, "flush", dir)
	for _, c := range []struct {
		args []string
		want int
	}{
		{nil, 8}, {[]string{"--bits", "7"}, 7}, {[]string{"--bits", "1"}, 1}, {[]string{"--bits", "16"}, 16},
		{[]string{"--bits=10"}, 10},
	} {
		args := append([]string{"upgrade-filters", dir, "--filter", "fuse"}, c.args...)
		works(t, args...)
		require.Equal(t, []int{c.want}, slotBitsIn(t, dir, keys), "%s", args)
		before := filesOf(t, dir)
		tables := func(files map[string]uint32) (names []string) {
			for name := range files {
				if filepath.Ext(name) == ".ldb" {
					names = append(names, name)
				}
			}
			return names
		}
		works(t, args...)
		require.ElementsMatch(t, tables(before), tables(filesOf(t, dir)), "%s again", args)
		require.Contains(t, works(t, "get", dir, "2"), "valuevalue")
	}
	require.Contains(t, fails(t, exitUsage, "upgrade-filters", dir, "--filter", "fuse", "--bits", "0"),
		"--bits is 0; want 1 to 64")
	require.Contains(t, fails(t, exitUsage, "upgrade-filters", dir, "--filter", "fuse", "--bits", "17"),
		"--bits is 17; --filter fuse wants 1 to 16, the bits of a slot")
	require.Equal(t, []int{10}, slotBitsIn(t, dir, keys), "nothing is upgraded")
	works(t, "upgrade-filters", dir, "--filter", "cacheline", "--bits", "17")
	require.Empty(t, slotBitsIn(t, dir, keys))
}
