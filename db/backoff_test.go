package db

import (
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/vfs"
)

// longestBackoff makes the next back-off of compactions 30 seconds, longer than any test waits.
func longestBackoff(d *DB) { d.compactor.SetBackoff(time.Minute) }

func requireIdle(t testing.TB, d *DB) {
	t.Helper()
	eventually(t, d.compactor.Idle)
}

// The bug: a flush started all due compactions, first the one that had just failed, so a busy
// writer caused retries without a pause.
func TestAFlushDoesNotShortenTheBackoffOfAFailedCompaction(t *testing.T) {
	var failing atomic.Bool
	broken := errors.New("broken disk")
	mem := vfs.NewMem()
	o := testOptions(wrap.NewFaulty(mem, func(op wrap.Op) *wrap.Fault {
		if failing.Load() && op.Kind == wrap.OpRead {
			return &wrap.Fault{Err: broken}
		}
		return nil
	}))
	var begun atomic.Int32
	failed := make(chan struct{}, 100)
	o.EventListener = &EventListener{
		CompactionBegin: func(CompactionInfo) { begun.Add(1) },
		CompactionEnd:   func(CompactionInfo) { failed <- struct{}{} },
	}
	o.Compaction.L0Trigger, o.Compaction.L0Slowdown, o.Compaction.L0Stop = 2, 50, 100
	d := openTest(t, o)
	longestBackoff(d)
	failing.Store(true)
	for i := range 10 {
		fill(t, d, 0, 100) // every table overlaps the others
		require.NoError(t, d.Flush())
		if i == 1 {
			<-failed
		}
	}
	requireIdle(t, d)
	require.EqualValues(t, 1, begun.Load(), "compactions tried during the back-off")
	eventually(t, func() bool { return d.Metrics().BackgroundError != nil }) // set when the compaction has ended
	require.ErrorIs(t, d.Metrics().BackgroundError, broken)
	require.Zero(t, d.Metrics().Compactions.TablesSetAside)

	failing.Store(false)
	require.NoError(t, d.Compact(t.Context(), nil, nil), "Compact does not wait for the back-off")
	requireValue(t, d, testKey(7), testValue(7))
}

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

func TestACorruptInputIsTriedOnceAndSeenInMetrics(t *testing.T) {
	o := corruptStore(t)
	var failures, begun atomic.Int32
	o.EventListener = &EventListener{
		CompactionBegin: func(CompactionInfo) { begun.Add(1) },
		CompactionEnd: func(i CompactionInfo) {
			if i.Err != nil {
				failures.Add(1)
			}
		},
	}
	d := openTest(t, o)
	eventually(t, func() bool { return d.Metrics().Compactions.TablesSetAside == 2 })
	for i := range 10 {
		fill(t, d, 1000*i+5000, 1000*i+5100)
		require.NoError(t, d.Flush())
	}
	requireIdle(t, d)
	require.EqualValues(t, 1, failures.Load())
	require.EqualValues(t, begun.Load(), failures.Load(),
		"level 0 is compacted in order: no table overtakes those set aside")
	m := d.Metrics()
	require.Equal(t, 2, m.Compactions.TablesSetAside)
	require.ErrorIs(t, m.BackgroundError, ErrCorruption)
	requireValue(t, d, testKey(120), testValue(120)) // in the intact table that was set aside with it
	requireValue(t, d, testKey(5050), testValue(5050))
}

// The bug: while tables of level 0 are set aside, level 0 never empties. A successful compaction
// elsewhere cleared the error, and writers waited for ever.
func TestWritersFailIfCorruptionBlocksLevelZero(t *testing.T) {
	o := corruptStore(t)
	o.Compaction.L0Slowdown, o.Compaction.L0Stop = 3, 4
	d := openTest(t, o)
	eventually(t, func() bool { return d.Metrics().Compactions.TablesSetAside == 2 })
	requireIdle(t, d)
	d.compactor.NoteOutcome(nil) // as a success elsewhere does
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
