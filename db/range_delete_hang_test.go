package db_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/limit/throttle"
	"github.com/sievedb/sievedb/vfs"
)

// stalled reports whether a writer waits for room in level 0.
func stalled(d *db.DB) bool {
	reason := d.Committer().Status().Stall
	return reason == throttle.StopLevel0 || reason == throttle.StopPaused
}

// The deletion of a range does not wait for the compaction of a full level 0, whose tables it has reserved. The bug: a
// writer that waited for room in level 0 led the queue, and the deletion waited after it. Both hung until Close.
func TestADeletionWithAFullLevel0Ends(t *testing.T) {
	for _, waits := range []bool{false, true} {
		wrote := make(chan error, 1)
		h := hook{at: of(wrap.OpCreate, ".dbtmp")}
		d := openTest(t, pausedOptions(h.over(vfs.NewMem())))
		release := d.Scheduler().Hold()
		h.arm(func() {
			flushKeys(t, d, 6)
			require.Len(t, d.State().Version.Levels[0].Files, 4)
			if waits {
				go func() { wrote <- putUntilDone(d, 100, 1_100) }()
				eventually(t, func() bool { return stalled(d) })
			} else {
				wrote <- d.Put(testKey(7), testValue(7), db.NoSync)
			}
			release()
			d.Scheduler().Schedule()
		})
		for _, keys := range [][]int{{0, 5}, {2, 3}, {3, 4}} {
			flushKeys(t, d, keys...)
		}
		require.NoError(t, d.DeleteRange(t.Context(), testKey(1), testKey(50), nil))
		require.NoError(t, <-wrote)
		requireValue(t, d, testKey(0), testValue(0))
		requireEmpty(t, d, testKey(1), testKey(50))
		if waits {
			requireValue(t, d, testKey(1_099), testValue(1_099))
		}
		require.False(t, stalled(d))
		flushKeys(t, d, 1)
	}
}

// flushKeys puts keys and flushes them.
func flushKeys(t *testing.T, d *db.DB, keys ...int) {
	t.Helper()
	for _, i := range keys {
		require.NoError(t, d.Put(testKey(i), testValue(i), db.NoSync))
	}
	require.NoError(t, d.Flush())
}

func putUntilDone(d *db.DB, from, to int) error {
	for i := from; i < to; i++ {
		if err := d.Put(testKey(i), testValue(i), db.NoSync); err != nil {
			return err
		}
	}
	return nil
}

// A deletion that waits for other writers leaves the queue when its context ends, and deletes nothing.
func TestAContextEndsADeletionThatWaitsForWriters(t *testing.T) {
	var release func()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	d := duringDeletion(t, func(d *db.DB) {
		release = holdWriters(t, d)
		go func() {
			waitForWriters(t, d, 1)
			cancel()
		}()
	})
	require.ErrorIs(t, d.DeleteRange(ctx, testKey(100), testKey(9_900), nil), context.Canceled)
	require.Zero(t, d.Committer().Status().Queued)
	release()
	requireValue(t, d, testKey(5_000), testValue(5_000))
	require.NoError(t, d.DeleteRange(t.Context(), testKey(100), testKey(9_900), nil))
	requireAbsent(t, d, testKey(5_000))
}

// The bug: the commit of a load is a jump of sequence numbers, which a deletion took for hundreds of
// millions of writes. With loads in a loop most deletions failed.
func TestLoadsDoNotOvertakeDeletions(t *testing.T) {
	d := twentyTables(t, vfs.NewMem())
	s := d.NewSnapshot() // so that all keys are read
	defer s.Close()
	stop, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- loadUntil(d, stop) }()
	for range 2 {
		require.NoError(t, d.DeleteRange(t.Context(), testKey(100), testKey(9_900), nil))
		fill(t, d, 3_000, 3_010)
	}
	require.NoError(t, d.DeleteRange(t.Context(), testKey(100), testKey(9_900), nil))
	close(stop)
	require.NoError(t, <-ended)
	requireEmpty(t, d, testKey(100), testKey(9_900))
	requireValue(t, d, []byte("loaded000000"), nil)
}

// loadUntil commits loads of one key until stop is closed, one at least.
func loadUntil(d *db.DB, stop <-chan struct{}) error {
	for i := 0; ; i++ {
		l, err := d.NewLoader()
		if err != nil {
			return err
		}
		if err := l.Put(fmt.Appendf(nil, "loaded%06d", i), nil); err != nil {
			return err
		}
		if err := l.Commit(); err != nil {
			return err
		}
		select {
		case <-stop:
			return nil
		default:
		}
	}
}
