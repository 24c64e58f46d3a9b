package db_test

import (
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/read/lookup"
	"github.com/sievedb/sievedb/vfs"
)

// withFailedCompaction is a store whose automatic compaction has failed, and is not tried again before release.
func withFailedCompaction(t *testing.T, cause error, l0Stop int) (d *db.DB, release func()) {
	t.Helper()
	var scarce, failed atomic.Bool
	o := testOptions(wrap.NewFaulty(vfs.NewMem(), func(op wrap.Op) *wrap.Fault {
		if scarce.Load() && op.Kind == wrap.OpCreate && strings.HasSuffix(op.Name, ".ldb") {
			return &wrap.Fault{Err: cause}
		}
		return nil
	}))
	o.Compaction.L0Trigger, o.Compaction.L0Slowdown, o.Compaction.L0Stop = 2, l0Stop-1, l0Stop
	o.EventListener = &db.EventListener{
		CompactionBegin: func(db.CompactionInfo) { scarce.Store(!failed.Swap(true)) },
		CompactionEnd: func(db.CompactionInfo) {
			if scarce.Swap(false) {
				release = d.Scheduler().Hold()
			}
		},
	}
	d = openTest(t, o)
	for i := range 2 {
		require.NoError(t, d.Put(testKey(i), testValue(i), db.NoSync))
		require.NoError(t, d.Put(testKey(9), testValue(i), db.NoSync))
		require.NoError(t, d.Flush())
	}
	eventually(t, func() bool { return d.Metrics().BackgroundError != nil })
	require.ErrorIs(t, d.Metrics().BackgroundError, cause)
	return d, release
}

// The bug: on a full disk with a full level 0, no compaction can make room there, and DeleteRange waited for one before
// it removed the tables of level 0. So it failed with ErrNoSpace for good, with megabytes of the disk free.
func TestDeleteRangeDoesNotWaitForCompactionsWithoutSpace(t *testing.T) {
	d, release := withFailedCompaction(t, syscall.ENOSPC, 4)
	defer release()
	for i := range 2 {
		require.NoError(t, d.Put(testKey(5), testValue(i), db.NoSync))
		require.NoError(t, d.Flush())
	}
	require.NoError(t, d.Put(testKey(6), testValue(6), db.NoSync))
	require.ErrorIs(t, d.Flush(), db.ErrNoSpace)
	require.NoError(t, d.DeleteRange(t.Context(), nil, nil, nil))
	require.Zero(t, d.Metrics().Levels[0].Tables)
	require.NoError(t, d.Flush())
}

// corruptStore returns the options of a store whose level 0 has two overlapping tables, the older one damaged.
func corruptStore(t testing.TB) *db.Options {
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
	require.NoError(t, d.Put(testKey(900), nil, db.NoSync))
	require.NoError(t, d.Compact(t.Context(), testKey(900), nil)) // a success elsewhere
	require.ErrorIs(t, d.Metrics().BackgroundError, db.ErrCorruption)
	var err error
	for i := 0; i < 10 && err == nil; i++ {
		if err = d.Put(testKey(i), nil, db.NoSync); err == nil {
			err = d.Flush()
		}
	}
	require.ErrorIs(t, err, db.ErrCorruption)
	require.ErrorContains(t, err, "level 0 is full")
}

// The bug: an edit that was recorded just before another one failed at the sync of the MANIFEST also removed the tables
// of the failed edit. That edit may be in force all the same, and then the next Open found its tables missing.
func TestAnEditRemovesOnlyTheTablesOfEarlierFailures(t *testing.T) {
	mem := vfs.NewMem()
	d := openTest(t, testOptions(mem))
	table := func(num uint64) (*version.FileMeta, string) {
		path := filepath.Join("db", base.FileName(base.FileTable, num))
		writeFile(t, mem, path, []byte("of an edit that failed"))
		return version.NewFileMeta(num, 1, nil, nil), path
	}
	before, beforePath := table(900)
	meanwhile, meanwhilePath := table(901)
	there := func(path string) bool {
		_, err := mem.Stat(path)
		return err == nil
	}
	d.Obsolete().AddUncertain(before)
	require.NoError(t, d.Committer().ApplyEdit(&manifest.Edit{}, nil, func(*lookup.State) { d.Obsolete().AddUncertain(meanwhile) }))
	require.False(t, there(beforePath))
	require.True(t, there(meanwhilePath))
	require.NoError(t, d.Committer().ApplyEdit(&manifest.Edit{}, nil, nil))
	require.False(t, there(meanwhilePath))
}
