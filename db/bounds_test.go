package db_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/vfs"
)

// boundaryStore returns a store with two tables on the last level, from "c" to "f" and from "m" to
// "p", and their file numbers.
func boundaryStore(t *testing.T) (d *db.DB, first, second uint64) {
	t.Helper()
	o := testOptions(vfs.NewMem())
	o.Compaction.L0Trigger = 100
	d = openTest(t, o)
	for _, table := range []string{"cdf", "mnp"} {
		for _, key := range table {
			require.NoError(t, d.Put([]byte(string(key)), testValue(1), db.NoSync))
		}
		require.NoError(t, d.Compact(t.Context(), []byte(table[:1]), nil))
	}
	nums := lastLevelNums(t, d)
	require.Len(t, nums, 2)
	return d, nums[0], nums[1]
}

func lastLevelNums(t *testing.T, d *db.DB) (nums []uint64) {
	t.Helper()
	files, err := d.Tables()
	require.NoError(t, err)
	for _, f := range files {
		if f.Level == db.NumLevels-1 {
			nums = append(nums, f.FileNum)
		}
	}
	return nums
}

// bound returns key as a bound, or nil if key is empty.
func bound(key string) []byte {
	if key == "" {
		return nil
	}
	return []byte(key)
}

// The bug: Compact included a table that began at its limit, although every other upper bound is exclusive.
func TestCompactExcludesItsLimit(t *testing.T) {
	for _, c := range []struct {
		start, limit  string // "" means no bound
		first, second bool   // whether that table is rewritten
	}{
		{"", "", true, true},
		{"", "c", false, false}, {"", "c\x00", true, false}, {"a", "c", false, false},
		{"f", "m", true, false}, {"f\x00", "m", false, false}, {"f\x00", "m\x00", false, true}, {"f", "m\x00", true, true},
		{"p", "", false, true}, {"p\x00", "", false, false},
		{"d", "e", true, false}, {"d", "d", false, false}, {"c", "c", false, false},
	} {
		t.Run(fmt.Sprintf("from %q to %q", c.start, c.limit), func(t *testing.T) {
			d, first, second := boundaryStore(t)
			require.NoError(t, d.Compact(t.Context(), bound(c.start), bound(c.limit)))
			after := lastLevelNums(t, d)
			require.Equal(t, !c.first, slices.Contains(after, first), "the first table stays")
			require.Equal(t, !c.second, slices.Contains(after, second), "the second table stays")
			for _, key := range "cdfmnp" {
				requireValue(t, d, []byte(string(key)), testValue(1))
			}
		})
	}
}

func TestCompactOfAnEmptyRangeDoesNothing(t *testing.T) {
	d, _, _ := boundaryStore(t)
	require.NoError(t, d.Put([]byte("d"), testValue(2), db.NoSync))
	before := d.Metrics()
	require.NoError(t, d.Compact(t.Context(), []byte("d"), []byte("d")))
	after := d.Metrics()
	require.Equal(t, before.Flushes.Count, after.Flushes.Count)
	require.Equal(t, before.Compactions.Count, after.Compactions.Count)
	require.Equal(t, before.Compactions.TrivialMoves, after.Compactions.TrivialMoves)
	requireValue(t, d, []byte("d"), testValue(2))
}

func TestApproximateSizeExcludesItsLimit(t *testing.T) {
	d, _, _ := boundaryStore(t)
	files, err := d.Tables()
	require.NoError(t, err)
	require.Len(t, files, 2)
	first, second := files[0].Bytes, files[1].Bytes
	for _, c := range []struct {
		start, limit string // "" means no bound
		want         uint64
	}{
		{"", "", first + second}, {"", "c", 0}, {"f\x00", "m", 0}, {"p\x00", "", 0},
		{"c", "m", first}, {"", "f\x00", first}, {"g", "p\x00", second}, {"m", "", second},
		{"d", "d", 0}, {"c", "c", 0}, {"n", "d", 0}, {"p", "m", 0},
	} {
		size, err := d.ApproximateSize(bound(c.start), bound(c.limit))
		require.NoError(t, err)
		require.Equal(t, c.want, size, "from %q to %q", c.start, c.limit)
	}
}

func TestAnIteratorExcludesItsUpperBound(t *testing.T) {
	d, _, _ := boundaryStore(t)
	for _, c := range []struct{ lower, upper, want string }{
		{"", "", "cdfmnp"}, {"", "c", ""}, {"", "c\x00", "c"}, {"f", "m", "f"}, {"f\x00", "m", ""}, {"f\x00", "m\x00", "m"},
		{"p", "", "p"}, {"p\x00", "", ""}, {"d", "d", ""}, {"n", "d", ""},
	} {
		it, err := d.NewIterator(&db.IterOptions{LowerBound: bound(c.lower), UpperBound: bound(c.upper)})
		require.NoError(t, err)
		got := ""
		for it.Next() {
			got += string(it.Key())
		}
		require.NoError(t, it.Close())
		require.Equal(t, c.want, got, "from %q to %q", c.lower, c.upper)
	}
}
