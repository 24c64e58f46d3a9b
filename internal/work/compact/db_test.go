package compact_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/storetest"
	"github.com/sievedb/sievedb/vfs"
)

// These tests look at compactions through a store.

// options returns those of storetest without compression, so that sizes follow from the entries.
func options(fs vfs.FS) *db.Options {
	o := storetest.Options(fs)
	o.Tables.Compression = db.NoCompression
	return o
}

// A tombstone that a compaction drops too early brings back the value below it (LevelDB issue 184).
func TestADeletedKeyStaysDeletedWhileADeeperLevelHoldsIt(t *testing.T) {
	o := options(vfs.NewMem())
	o.Compaction.L0Trigger = 2
	d := storetest.Open(t, o)
	storetest.Fill(t, d, 0, 2000)
	require.NoError(t, d.Compact(t.Context(), nil, nil))
	for range 2 { // two tables are merged, one would be moved
		require.NoError(t, d.Delete(fixture.Key(7), db.NoSync))
		require.NoError(t, d.Put(fixture.Key(8), fixture.Value(8), db.NoSync))
		require.NoError(t, d.Flush())
	}
	fixture.Eventually(t, func() bool { return d.Metrics().Levels[0].Tables == 0 })
	require.NotZero(t, d.Metrics().Levels[db.NumLevels-1].Tables)
	_, err := d.Get(fixture.Key(7))
	require.Equal(t, db.ErrNotFound, err)
	it, err := d.NewIterator(nil)
	require.NoError(t, err)
	defer it.Close()
	require.True(t, it.SeekGE(fixture.Key(7)))
	require.Equal(t, string(fixture.Key(8)), string(it.Key()))
}

// While a snapshot shows a deleted key, both the value and the tombstone stay.
func TestADeletedKeyStaysDeletedWhileASnapshotShowsIt(t *testing.T) {
	d := storetest.Open(t, options(vfs.NewMem()))
	require.NoError(t, d.Put(fixture.Key(7), fixture.Value(7), db.NoSync))
	require.NoError(t, d.Put(fixture.Key(8), fixture.Value(8), db.NoSync))
	s := d.NewSnapshot()
	defer s.Close()
	require.NoError(t, d.Delete(fixture.Key(7), db.NoSync))
	require.NoError(t, d.Compact(t.Context(), nil, nil))
	_, err := d.Get(fixture.Key(7))
	require.Equal(t, db.ErrNotFound, err)
	got, err := s.Get(fixture.Key(7))
	require.NoError(t, err)
	require.Equal(t, string(fixture.Value(7)), string(got))
}

// A retry would fail again and keep a processor and a disk busy for ever (basho/eleveldb issue 23).
func TestACompactionThatFindsCorruptionIsNotRetried(t *testing.T) {
	mem := vfs.NewMem()
	o := options(mem)
	o.Compaction.L0Trigger = 100
	d := storetest.Open(t, o)
	for range 2 {
		storetest.Fill(t, d, 0, 50)
		require.NoError(t, d.Flush())
	}
	require.NoError(t, d.Close())
	damageOldestTable(t, mem)

	var met atomic.Int64
	o.Compaction.L0Trigger = 2
	o.EventListener = &db.EventListener{CompactionEnd: func(i db.CompactionInfo) {
		if errors.Is(i.Err, db.ErrCorruption) {
			met.Add(1)
		}
	}}
	d = storetest.Open(t, o)
	fixture.Eventually(t, func() bool { return d.Metrics().BackgroundError != nil })
	for i := range 3 {
		storetest.Fill(t, d, 100*i+100, 100*i+150)
		require.NoError(t, d.Flush())
		fixture.Eventually(t, func() bool { m := d.Metrics(); return len(m.Compactions.Running) == 0 })
	}
	require.EqualValues(t, 1, met.Load(), "compactions that found the damage")
	require.ErrorIs(t, d.Metrics().BackgroundError, db.ErrCorruption)
	storetest.RequireValue(t, d, fixture.Key(49), fixture.Value(49)) // in the intact table with the same keys
	storetest.RequireValue(t, d, fixture.Key(120), fixture.Value(120))
}

// damageOldestTable changes a byte of the first data block of the table with the smallest number.
func damageOldestTable(t *testing.T, mem *vfs.Mem) {
	t.Helper()
	oldest := filepath.Join("db", slices.Min(fixture.Names(t, mem, base.FileTable)))
	data := fixture.ReadFile(t, mem, oldest)
	data[10] ^= 1
	fixture.WriteFile(t, mem, oldest, data)
}

// tableCount counts the tables that are being written.
type tableCount struct{ open, most atomic.Int64 }

func (c *tableCount) hook(op wrap.Op) *wrap.Fault {
	if filepath.Ext(op.Name) != ".ldb" {
		return nil
	}
	switch op.Kind {
	case wrap.OpCreate:
		n := c.open.Add(1)
		for m := c.most.Load(); n > m && !c.most.CompareAndSwap(m, n); m = c.most.Load() {
		}
	case wrap.OpWrite:
		runtime.Gosched() // so that other goroutines run in between
	case wrap.OpSync: // the merge into this table is over
		c.open.Add(-1)
	}
	return nil
}

// Whatever compactions, calls of Compact and pieces coincide, at most as many tables are written at
// a time as there are slots, and one more by a flush.
func TestMergesUseNoMoreThanTheirSlots(t *testing.T) {
	const slots = 3
	var c tableCount
	o := options(wrap.NewFaulty(vfs.NewMem(), c.hook))
	o.Tables.Size, o.Compaction.MaxConcurrent = 4<<10, slots
	o.Compaction.L0Trigger, o.Compaction.L0Slowdown, o.Compaction.L0Stop = 2, 1000, 2000
	d := storetest.Open(t, o)
	done := make(chan error)
	for i := range 3 {
		go func() { done <- writeAndCompact(d, rand.New(rand.NewPCG(7, uint64(i)))) }()
	}
	for range 3 {
		require.NoError(t, <-done)
	}
	require.NoError(t, d.Flush())
	require.NoError(t, d.Compact(t.Context(), nil, nil))
	require.LessOrEqual(t, c.most.Load(), int64(slots+1))
	m := d.Metrics()
	t.Logf("%d compactions in %d pieces, at most %d tables at a time",
		m.Compactions.Count, m.Compactions.Subcompactions, c.most.Load())
	require.Greater(t, m.Compactions.Subcompactions, m.Compactions.Count)
}

func writeAndCompact(d *db.DB, rnd *rand.Rand) error {
	for n := range 3000 {
		k := rnd.IntN(3000)
		err := d.Put(fixture.Key(k), fixture.Value(k), db.NoSync)
		if err == nil && n%500 == 0 {
			err = d.Compact(context.Background(), fixture.Key(k), fixture.Key(k+1000))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Each slot is used by a piece that waits for its disk. A flush waits for none of them.
func TestPiecesAreMergedConcurrentlyAndAFlushWaitsForNone(t *testing.T) {
	var closed atomic.Bool
	arrived, proceed := make(chan struct{}, 100), make(chan struct{})
	o := options(wrap.NewFaulty(vfs.NewMem(), func(op wrap.Op) *wrap.Fault {
		if op.Kind == wrap.OpCreate && filepath.Ext(op.Name) == ".ldb" && closed.Load() {
			arrived <- struct{}{}
			<-proceed
		}
		return nil
	}))
	o.Tables.Size, o.Compaction.MaxConcurrent = 4<<10, 3
	o.Compaction.L0Trigger, o.Compaction.L0Slowdown, o.Compaction.L0Stop = 1000, 1000, 2000
	d := storetest.Open(t, o)
	for range 2 {
		storetest.Fill(t, d, 0, 2000)
		require.NoError(t, d.Flush())
	}
	closed.Store(true)
	done := make(chan error)
	go func() { done <- d.Compact(context.Background(), nil, nil) }()
	for range 3 {
		<-arrived
	}
	closed.Store(false) // the blocked pieces stay blocked
	storetest.Fill(t, d, 5000, 5100)
	require.NoError(t, d.Flush())
	require.Zero(t, d.Metrics().Compactions.Count)
	close(proceed)
	require.NoError(t, <-done)
	require.GreaterOrEqual(t, d.Metrics().Compactions.Subcompactions, d.Metrics().Compactions.Count+2)
	for k := range 2000 {
		storetest.RequireValue(t, d, fixture.Key(k), fixture.Value(k))
	}
}

// A table that is moved down is not merged. Compact rewrites it all the same.
func TestCompactCallsTheFilterForMovedTables(t *testing.T) {
	o := options(vfs.NewMem())
	o.Compaction.Filter = func(_, value []byte) ([]byte, bool) { return bytes.ToUpper(value), string(value) != "gone" }
	d := storetest.Open(t, o)
	require.NoError(t, d.Put([]byte("a"), []byte("gone"), db.NoSync))
	require.NoError(t, d.Put([]byte("b"), []byte("stays"), db.NoSync))
	require.NoError(t, d.Flush())
	require.NoError(t, d.Compact(t.Context(), nil, nil))
	require.EqualValues(t, 1, d.Metrics().Compactions.TrivialMoves)
	storetest.RequireValue(t, d, []byte("b"), []byte("STAYS"))
	_, err := d.Get([]byte("a"))
	require.Equal(t, db.ErrNotFound, err)
}
