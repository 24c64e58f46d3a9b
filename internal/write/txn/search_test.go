package txn

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/test/tabletest"
)

// Only tables with entries above the start are read, and damage in them is an error.
func TestChangesInTablesAreFound(t *testing.T) {
	s := tabletest.New(t, filter.NewBloomPolicy(10))
	old := s.Add(1, 5, "old", 1, 2, 3, 4)
	s.Add(0, 8, "new", 2)
	damaged := s.Add(0, 9, "damaged", 3)
	s.Flip(damaged, 1)
	v := s.Version()
	for _, test := range []struct {
		key   int
		start uint64
		read  func(f *manifest.FileMeta, start uint64) bool
		found bool
		fails bool
	}{
		{1, 4, func(f *manifest.FileMeta, _ uint64) bool { return f.Num == old.Num }, true, false},
		{1, 5, func(f *manifest.FileMeta, _ uint64) bool { return f.Num == old.Num }, false, false},
		{2, 5, func(f *manifest.FileMeta, start uint64) bool { return f.Num != damaged.Num && start == 5 }, true, false},
		{2, 5, func(*manifest.FileMeta, uint64) bool { return false }, false, false},
		{3, 5, func(f *manifest.FileMeta, _ uint64) bool { return f.Num == damaged.Num }, false, true},
	} {
		reads := Reads{Comparer: base.Bytewise}
		reads.AddKey(tabletest.Key(test.key))
		reads.Prepare()
		found, err := reads.ConflictInTables(s.Cache, v, Numbers{test.start + 1, base.MaxSeq}, func(f *manifest.FileMeta) bool { return test.read(f, test.start) })
		require.Equal(t, test.found, found)
		if test.fails {
			require.ErrorIs(t, err, base.ErrCorruption)
			require.ErrorContains(t, err, "looking for changes of what the transaction read")
		} else {
			require.NoError(t, err)
		}
	}
}
