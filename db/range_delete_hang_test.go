package db_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/limit/throttle"
	"github.com/sievedb/sievedb/vfs"
)

// stalled reports whether a writer waits for room in level 0.
func stalled(d *db.DB) bool {
	reason := d.Committer().Status().Stall
	return reason == throttle.StopLevel0 || reason == throttle.StopPaused
}

// The bug: a writer that waited for room in level 0 led the queue, and the deletion, which had reserved
// the tables there, waited after it. Both hung until Close.
func TestADeletionEndsThoughAWriterWaitsForLevel0(t *testing.T) {
	var d *db.DB
	var release func()
	var once sync.Once
	wrote := make(chan error, 1)
	o := testOptions(onTemp(vfs.NewMem(), func() {
		if d == nil {
			return
		}
		once.Do(func() {
			require.NoError(t, d.Put(testKey(6), testValue(6), db.NoSync))
			require.NoError(t, d.Flush())
			require.Len(t, d.State().Version.Levels[0].Files, 4)
			go func() { wrote <- putUntilDone(d, 100, 1_100) }()
			eventually(t, func() bool { return stalled(d) })
			release()
			d.Scheduler().Schedule()
		})
	}))
	o.Compaction.L0Trigger, o.Compaction.L0Slowdown, o.Compaction.L0Stop = 2, 3, 4
	d = openTest(t, o)
	release = d.Scheduler().Hold()
	for _, keys := range [][]int{{0, 5}, {2, 3}, {3, 4}} {
		for _, i := range keys {
			require.NoError(t, d.Put(testKey(i), testValue(i), db.NoSync))
		}
		require.NoError(t, d.Flush())
	}
	require.NoError(t, d.DeleteRange(t.Context(), testKey(1), testKey(50), nil))
	require.NoError(t, <-wrote)
	for i := range 7 {
		if i == 0 {
			requireValue(t, d, testKey(i), testValue(i))
			continue
		}
		requireAbsent(t, d, testKey(i))
	}
	requireValue(t, d, testKey(1_099), testValue(1_099))
	require.False(t, stalled(d))
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
	it, err := d.NewIterator(&db.IterOptions{LowerBound: testKey(100), UpperBound: testKey(9_900)})
	require.NoError(t, err)
	require.False(t, it.First())
	require.NoError(t, it.Close())
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
