package db

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/vfs"
)

// corruptStore returns the options of a store whose level 0 has two overlapping tables, the older
// one damaged.
func corruptStore(t testing.TB) *Options {
	mem := vfs.NewMem()
	o := testOptions(mem)
	o.Compaction.L0Trigger = 100
	d := mustOpen(t, o)
	for i := range 2 {
		fill(t, d, 50*i, 50*i+100)
		require.NoError(t, d.Flush())
	}
	require.NoError(t, d.Close())
	restampFirstBlock(t, mem, filepath.Join("db", namesOf(t, mem, base.FileTable)[0]), 2) // the older one is no Zstandard
	o = testOptions(mem)                                                                  // with a new order checker, which has not seen the undamaged table
	o.Compaction.L0Trigger = 2
	return o
}

// The bug: while tables of level 0 are set aside, level 0 never empties. A successful compaction
// elsewhere cleared the error, and writers waited for ever.
func TestWritersFailIfCorruptionBlocksLevelZero(t *testing.T) {
	o := corruptStore(t)
	o.Compaction.L0Slowdown, o.Compaction.L0Stop = 3, 4
	d := openTest(t, o)
	eventually(t, func() bool { return d.Metrics().Compactions.TablesSetAside == 2 })
	eventually(t, func() bool { return idle(d) })
	require.NoError(t, d.Put(testKey(900), nil, NoSync))
	require.NoError(t, d.Compact(t.Context(), testKey(900), nil)) // a success elsewhere
	require.ErrorIs(t, d.Metrics().BackgroundError, ErrCorruption)
	var err error
	for i := 0; i < 10 && err == nil; i++ {
		if err = d.Put(testKey(i), nil, NoSync); err == nil {
			err = d.Flush()
		}
	}
	require.ErrorIs(t, err, ErrCorruption)
	require.ErrorContains(t, err, "level 0 is full")
}
