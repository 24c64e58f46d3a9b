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

// withoutDescriptors is a store whose automatic compaction has failed, and is not tried again before release.
func withoutDescriptors(t *testing.T) (d *DB, release func()) {
	t.Helper()
	return withFailedCompaction(t, syscall.EMFILE, 12)
}

// withFailedCompaction is withoutDescriptors for another error, and for a limit of level 0.
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
				release = d.compactor.HoldBackground()
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

// The bug: the error stayed for good, since no compaction was due any more, and only automatic ones ended it.
func TestTheErrorOfACompactionEndsWithACompact(t *testing.T) {
	d, release := withoutDescriptors(t)
	defer release()
	require.NoError(t, d.Compact(t.Context(), nil, nil))
	require.NoError(t, d.Metrics().BackgroundError)
}

func TestTheErrorOfACompactionEndsWhenNoneIsDue(t *testing.T) {
	d, release := withoutDescriptors(t)
	require.NoError(t, d.DeleteRange(t.Context(), nil, nil, nil))
	require.Error(t, d.Metrics().BackgroundError, "nothing was compacted")
	release()
	eventually(t, func() bool { d.compactor.Schedule(); return d.Metrics().BackgroundError == nil })
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
