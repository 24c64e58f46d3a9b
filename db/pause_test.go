package db_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/limit/throttle"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/vfs"
)

// pausedOptions are the options of a store whose level 0 is full at four tables.
func pausedOptions(fsys vfs.FS) *db.Options {
	o := testOptions(fsys)
	o.Compaction.L0Trigger, o.Compaction.L0Slowdown, o.Compaction.L0Stop = 2, 3, 4
	return o
}

// flushTables puts n tables into level 0.
func flushTables(t *testing.T, d *db.DB, n int) {
	t.Helper()
	for range n {
		require.NoError(t, d.Put(testKey(1), testValue(1), db.NoSync))
		require.NoError(t, d.Flush())
	}
}

func mustPause(t *testing.T, d *db.DB) (resume func()) {
	t.Helper()
	resume, err := d.PauseCompactions(t.Context())
	require.NoError(t, err)
	return resume
}

// Writers stop when level 0 is full, say why, and continue after the pause, a raised limit or Close.
func TestWritersStopAtAFullLevel0DuringAPause(t *testing.T) {
	for name, end := range map[string]func(d *db.DB, resume func()){
		"resume":     func(_ *db.DB, resume func()) { resume() },
		"SetOptions": func(d *db.DB, _ func()) { tune(t, d, func(o *db.Options) { o.Compaction.L0Stop = 1000 }) },
		"Close":      func(d *db.DB, _ func()) { require.NoError(t, d.Close()) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := openTest(t, pausedOptions(vfs.NewMem()))
				resume := mustPause(t, d)
				defer resume() // after Close too
				var written atomic.Int64
				var stop atomic.Bool
				var returned atomic.Bool
				go func() { keepPutting(d, &written, &stop); returned.Store(true) }()
				time.Sleep(time.Hour)
				require.Equal(t, throttle.StopPaused, d.Metrics().Stalls.CurrentReason)
				was := written.Load()
				time.Sleep(time.Hour)
				require.Equal(t, was, written.Load(), "the writer waits")
				stop.Store(name != "Close")
				end(d, resume)
				time.Sleep(time.Hour)
				require.True(t, returned.Load())
				if name != "Close" {
					require.Equal(t, was+1, written.Load())
				}
			})
		})
	}
}

// Calls that a pause does not stop work also if level 0 is full and a writer waits for that.
func TestCallsDuringAPauseWithAFullLevel0(t *testing.T) {
	for name, call := range map[string]func(d *db.DB) error{
		"Compact":            func(d *db.DB) error { return d.Compact(background, nil, nil) },
		"Compact of a range": func(d *db.DB) error { return d.Compact(background, []byte("x"), nil) },
		"UpgradeFilters":     func(d *db.DB) error { _, err := d.UpgradeFilters(background, nil, nil); return err },
		"Loader.Commit": func(d *db.DB) error {
			l, err := d.NewLoader()
			require.NoError(t, err)
			require.NoError(t, l.Put([]byte("z"), []byte("loaded")))
			return l.Commit()
		},
		"DeleteRange": func(d *db.DB) error { return d.DeleteRange(background, testKey(0), testKey(5), nil) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := openTest(t, pausedOptions(vfs.NewMem()))
				resume := mustPause(t, d)
				flushTables(t, d, 4)
				var written atomic.Int64
				var stop, done atomic.Bool
				go keepPutting(d, &written, &stop)
				time.Sleep(time.Hour)
				require.Equal(t, throttle.StopPaused, d.Metrics().Stalls.CurrentReason)
				stop.Store(true)
				go func() { require.NoError(t, call(d)); done.Store(true) }()
				time.Sleep(time.Hour)
				require.True(t, done.Load(), "it waits for the end of the pause")
				require.Equal(t, 1, d.Metrics().Compactions.Pauses)
				require.NoError(t, d.Compact(t.Context(), nil, nil))
				require.Zero(t, d.Metrics().Levels[0].Tables)
				resume()
			})
		})
	}
}

// The bug: Compact looked whether level 0 was full before it flushed. The memtables that were flushed
// meanwhile filled it, and Compact waited for the end of the pause.
func TestCompactIsNotStoppedByAFlushThatFillsLevel0(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := fixture.NewGate()
		d := openTest(t, pausedOptions(g.FS()))
		resume := mustPause(t, d)
		flushTables(t, d, 3)
		g.Closed.Store(true)
		var written atomic.Int64
		var stop, done atomic.Bool
		go keepPutting(d, &written, &stop)
		time.Sleep(time.Hour)
		go func() { require.NoError(t, d.Compact(background, nil, nil)); done.Store(true) }()
		time.Sleep(time.Minute)
		stop.Store(true)
		g.Closed.Store(false)
		close(g.Open)
		time.Sleep(time.Hour)
		require.True(t, done.Load())
		resume()
	})
}

// The bug: the end of a pause did not wake writers. If no compaction followed, for example because the
// tables of level 0 are corrupt, they waited for ever, and not with the reason.
func TestTheEndOfAPauseWakesWriters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := corruptStore(t)
		o.Compaction.L0Slowdown, o.Compaction.L0Stop = 3, 4
		d := openTest(t, o)
		time.Sleep(time.Hour)
		require.Equal(t, 2, d.Metrics().Compactions.TablesSetAside)
		resume := mustPause(t, d)
		var failed atomic.Value
		go func() {
			for i := 0; ; i++ {
				if err := d.Put(testKey(i), testValue(i), db.NoSync); err != nil {
					failed.Store(err)
					return
				}
			}
		}()
		time.Sleep(time.Hour)
		require.Equal(t, throttle.StopPaused, d.Metrics().Stalls.CurrentReason)
		require.Nil(t, failed.Load())
		resume()
		time.Sleep(time.Second)
		err, _ := failed.Load().(error)
		require.ErrorIs(t, err, db.ErrCorruption) // see corruptStore
	})
}
