package db

import (
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/vfs"
)

// withFailedCompaction is a store whose automatic compaction has failed, and is not tried again before release.
func withFailedCompaction(t *testing.T, cause error, l0Stop int) (d *DB, release func()) {
	t.Helper()
	var scarce, failed atomic.Bool
	o := testOptions(wrap.NewFaulty(vfs.NewMem(), func(op wrap.Op) *wrap.Fault {
		if scarce.Load() && op.Kind == wrap.OpCreate && strings.HasSuffix(op.Name, ".ldb") {
			return &wrap.Fault{Err: cause}
		}
		return nil
	}))
	o.Compaction.L0Trigger, o.Compaction.L0Slowdown, o.Compaction.L0Stop = 2, l0Stop-1, l0Stop
	o.EventListener = &EventListener{
		CompactionBegin: func(CompactionInfo) { scarce.Store(!failed.Swap(true)) },
		CompactionEnd: func(CompactionInfo) {
			if scarce.Swap(false) {
				release = d.compactor.Hold()
			}
		},
	}
	d = openTest(t, o)
	for i := range 2 {
		require.NoError(t, d.Put(testKey(i), testValue(i), NoSync))
		require.NoError(t, d.Put(testKey(9), testValue(i), NoSync))
		require.NoError(t, d.Flush())
	}
	eventually(t, func() bool { return d.Metrics().BackgroundError != nil })
	require.ErrorIs(t, d.Metrics().BackgroundError, cause)
	return d, release
}

// The bug: on a full disk with a full level 0, no compaction can make room there, and DeleteRange waited for one before it
// removed the tables of level 0. So it failed with ErrNoSpace for good, with megabytes of the disk free.
func TestDeleteRangeDoesNotWaitForCompactionsWithoutSpace(t *testing.T) {
	d, release := withFailedCompaction(t, syscall.ENOSPC, 4)
	defer release()
	for i := range 2 {
		require.NoError(t, d.Put(testKey(5), testValue(i), NoSync))
		require.NoError(t, d.Flush())
	}
	require.NoError(t, d.Put(testKey(6), testValue(6), NoSync))
	require.ErrorIs(t, d.Flush(), ErrNoSpace)
	require.NoError(t, d.DeleteRange(t.Context(), nil, nil, nil))
	require.Zero(t, d.Metrics().Levels[0].Tables)
	require.NoError(t, d.Flush())
}
