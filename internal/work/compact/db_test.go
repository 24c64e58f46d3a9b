package compact_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/crashtest/order"
	"github.com/sievedb/sievedb/vfs"
)

// These tests look at compactions through a store.

// options returns options with small sizes, so that a few thousand keys fill several levels. What is not written is not
// compressed, so that sizes follow from the entries.
func options(fs vfs.FS) *db.Options {
	return &db.Options{
		FS: fs, Memtables: db.MemtableOptions{Size: 16 << 10},
		Tables:     db.TableOptions{Size: 8 << 10, BlockSize: 512, Compression: db.NoCompression},
		Compaction: db.CompactionOptions{MaxLevelBase: 32 << 10},
		Cache:      db.CacheOptions{Size: 256 << 10},
	}
}

// open opens a store whose operations are checked for their order.
func open(t *testing.T, o *db.Options) *db.DB {
	t.Helper()
	checked := *o
	if _, ok := o.FS.(*order.FS); !ok {
		checked.FS = order.NewReporting(o.FS, func(v string) { t.Error(v) })
	}
	d, err := db.Open("db", &checked)
	require.NoError(t, err)
	t.Cleanup(func() { _ = d.Close() })
	return d
}

func key(i int) []byte   { return fmt.Appendf(nil, "key%06d", i) }
func value(i int) []byte { return fmt.Appendf(nil, "value%06d%089d", i, i) }

func fill(t *testing.T, d *db.DB, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		require.NoError(t, d.Put(key(i), value(i), db.NoSync))
	}
}

func requireValue(t *testing.T, d *db.DB, key, want []byte) {
	t.Helper()
	got, err := d.Get(key)
	require.NoError(t, err)
	require.Equal(t, string(want), string(got))
}

// eventually waits for a condition that background work fulfils. It asserts nothing about the time.
func eventually(t *testing.T, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(5 * time.Minute) // only a store that hangs reaches it
	for !condition() {
		require.True(t, time.Now().Before(deadline), "the condition was never fulfilled")
		runtime.Gosched()
	}
}

// A tombstone that a compaction drops too early brings back the value below it (LevelDB issue 184).
func TestADeletedKeyStaysDeletedWhileADeeperLevelHoldsIt(t *testing.T) {
	o := options(vfs.NewMem())
	o.Compaction.L0Trigger = 2
	d := open(t, o)
	fill(t, d, 0, 2000)
	require.NoError(t, d.Compact(t.Context(), nil, nil))
	for range 2 { // two tables are merged, one would be moved
		require.NoError(t, d.Delete(key(7), db.NoSync))
		require.NoError(t, d.Put(key(8), value(8), db.NoSync))
		require.NoError(t, d.Flush())
	}
	eventually(t, func() bool { return d.Metrics().Levels[0].Tables == 0 })
	require.NotZero(t, d.Metrics().Levels[db.NumLevels-1].Tables)
	_, err := d.Get(key(7))
	require.Equal(t, db.ErrNotFound, err)
	it, err := d.NewIterator(nil)
	require.NoError(t, err)
	defer it.Close()
	require.True(t, it.SeekGE(key(7)))
	require.Equal(t, string(key(8)), string(it.Key()))
}

// While a snapshot shows a deleted key, both the value and the tombstone stay.
func TestADeletedKeyStaysDeletedWhileASnapshotShowsIt(t *testing.T) {
	d := open(t, options(vfs.NewMem()))
	require.NoError(t, d.Put(key(7), value(7), db.NoSync))
	require.NoError(t, d.Put(key(8), value(8), db.NoSync))
	s := d.NewSnapshot()
	defer s.Close()
	require.NoError(t, d.Delete(key(7), db.NoSync))
	require.NoError(t, d.Compact(t.Context(), nil, nil))
	_, err := d.Get(key(7))
	require.Equal(t, db.ErrNotFound, err)
	got, err := s.Get(key(7))
	require.NoError(t, err)
	require.Equal(t, string(value(7)), string(got))
}

// A retry would fail again and keep a processor and a disk busy for ever (basho/eleveldb issue 23).
func TestACompactionThatFindsCorruptionIsNotRetried(t *testing.T) {
	mem := vfs.NewMem()
	o := options(mem)
	o.Compaction.L0Trigger = 100
	d := open(t, o)
	for range 2 {
		fill(t, d, 0, 50)
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
	d = open(t, o)
	eventually(t, func() bool { return d.Metrics().BackgroundError != nil })
	for i := range 3 {
		fill(t, d, 100*i+100, 100*i+150)
		require.NoError(t, d.Flush())
		eventually(t, func() bool { m := d.Metrics(); return len(m.Compactions.Running) == 0 })
	}
	require.EqualValues(t, 1, met.Load(), "compactions that found the damage")
	require.ErrorIs(t, d.Metrics().BackgroundError, db.ErrCorruption)
	requireValue(t, d, key(49), value(49)) // in the intact table with the same keys
	requireValue(t, d, key(120), value(120))
}

// damageOldestTable changes a byte of the first data block of the table with the smallest number.
func damageOldestTable(t *testing.T, mem *vfs.Mem) {
	t.Helper()
	names, err := mem.List("db")
	require.NoError(t, err)
	oldest := ""
	for _, name := range names {
		if strings.HasSuffix(name, ".ldb") && (oldest == "" || name < oldest) {
			oldest = filepath.Join("db", name)
		}
	}
	file, err := mem.Open(oldest)
	require.NoError(t, err)
	size, err := file.Size()
	require.NoError(t, err)
	data := make([]byte, size)
	_, err = file.ReadAt(data, 0)
	require.NoError(t, errors.Join(err, file.Close()))
	data = bytes.Clone(data)
	data[10] ^= 1
	require.NoError(t, mem.Remove(oldest))
	file, err = mem.Create(oldest)
	require.NoError(t, err)
	_, err = file.Write(data)
	require.NoError(t, errors.Join(err, file.Sync(), file.Close(), mem.SyncDir("db")))
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
	d := open(t, o)
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
		err := d.Put(key(k), value(k), db.NoSync)
		if err == nil && n%500 == 0 {
			err = d.Compact(context.Background(), key(k), key(k+1000))
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
	d := open(t, o)
	for range 2 {
		fill(t, d, 0, 2000)
		require.NoError(t, d.Flush())
	}
	closed.Store(true)
	done := make(chan error)
	go func() { done <- d.Compact(context.Background(), nil, nil) }()
	for range 3 {
		<-arrived
	}
	closed.Store(false) // the blocked pieces stay blocked
	fill(t, d, 5000, 5100)
	require.NoError(t, d.Flush())
	require.Zero(t, d.Metrics().Compactions.Count)
	close(proceed)
	require.NoError(t, <-done)
	require.GreaterOrEqual(t, d.Metrics().Compactions.Subcompactions, d.Metrics().Compactions.Count+2)
	for k := range 2000 {
		requireValue(t, d, key(k), value(k))
	}
}

// A table that is moved down is not merged. Compact rewrites it all the same.
func TestCompactCallsTheFilterForMovedTables(t *testing.T) {
	o := options(vfs.NewMem())
	o.Compaction.Filter = func(_, value []byte) ([]byte, bool) { return bytes.ToUpper(value), string(value) != "gone" }
	d := open(t, o)
	require.NoError(t, d.Put([]byte("a"), []byte("gone"), db.NoSync))
	require.NoError(t, d.Put([]byte("b"), []byte("stays"), db.NoSync))
	require.NoError(t, d.Flush())
	require.NoError(t, d.Compact(t.Context(), nil, nil))
	require.EqualValues(t, 1, d.Metrics().Compactions.TrivialMoves)
	requireValue(t, d, []byte("b"), []byte("STAYS"))
	_, err := d.Get([]byte("a"))
	require.Equal(t, db.ErrNotFound, err)
}
