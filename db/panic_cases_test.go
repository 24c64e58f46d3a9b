package db_test

import (
	"errors"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/vfs"
)

// The bug: if the comparer panicked in the replay of the log, each Open panicked and left the directory locked.
func TestOpenNamesAComparerThatPanics(t *testing.T) {
	b := &bomb{}
	o := testOptions(nil)
	o.FS, o.Comparer = vfs.NewMem(), bombComparer(b)
	d := openDir(t, "db", o)
	fill(t, d, 0, 20)
	require.NoError(t, d.Close())
	b.calls.Store(0)
	b.at.Store(1)
	_, err := db.Open("db", o)
	var p *db.PanicError
	require.ErrorAs(t, err, &p)
	require.Equal(t, boom, p.Value)
	require.ErrorContains(t, err, `the comparer "test.bomb" panicked during the replay of the logs: `+boom)
	b.disarm()
	d, err = db.Open("db", o)
	require.NoError(t, err, "the directory is not locked")
	require.NoError(t, d.Close())

	require.NoError(t, o.FS.Remove(filepath.Join("db", "CURRENT")))
	b.at.Store(1)
	_, err = db.RepairWithReport("db", o)
	require.ErrorContains(t, err, `the comparer "test.bomb" panicked during Repair`)
	b.disarm()
	require.NoError(t, db.Repair("db", o), "the directory is not locked")
	d = openDir(t, "db", o)
	defer d.Close()
	for i := range 20 {
		requireValue(t, d, testKey(i), testValue(i))
	}
}

// The bug: writers that were committed together with one that panicked waited for ever.
func TestWritersCommittedWithOneThatPanicsGetAnError(t *testing.T) {
	b := &bomb{}
	o := testOptions(nil)
	o.FS, o.Comparer = vfs.NewMem(), bombComparer(b)
	o.Memtables.Size = 1 << 20 // no flush begins: the comparer would panic there, and no writer would
	d := openDir(t, "db", o)
	fill(t, d, 0, 100)
	b.at.Store(b.calls.Load() + 500)
	var panics, ended atomic.Int64
	within(t, "a writer or Close", func() {
		var group sync.WaitGroup
		for w := range 8 {
			group.Go(func() {
				defer func() {
					if recover() != nil {
						panics.Add(1)
					}
				}()
				var err error
				for i := 0; err == nil; i++ {
					err = d.Put(testKey(1000+8*i+w), nil, []*db.WriteOptions{db.NoSync, db.Sync}[w%2])
				}
				var p *db.PanicError
				if errors.Is(err, db.ErrReadOnly) && errors.As(err, &p) {
					ended.Add(1)
				}
			})
		}
		group.Wait()
		require.ErrorContains(t, d.Close(), boom)
	})
	require.Positive(t, panics.Load(), "the panic reaches the caller that caused it")
	require.EqualValues(t, 8, panics.Load()+ended.Load())
}

// The bug: after a listener had ended its goroutine, as FailNow does, Flush and Close hung.
func TestAListenerThatEndsItsGoroutineEndsTheWrites(t *testing.T) {
	for name, l := range map[string]*db.EventListener{
		"FlushEnd":        {FlushEnd: func(db.FlushInfo) { runtime.Goexit() }},
		"CompactionBegin": {CompactionBegin: func(db.CompactionInfo) { runtime.Goexit() }},
		"CompactionEnd":   {CompactionEnd: func(db.CompactionInfo) { runtime.Goexit() }},
	} {
		t.Run(name, func(t *testing.T) {
			o := testOptions(nil)
			o.FS, o.EventListener, o.Compaction.L0Trigger = vfs.NewMem(), l, 1
			d := openDir(t, "db", o)
			require.NoError(t, d.Put(testKey(1), testValue(1), db.Sync))
			within(t, "Flush or Close", func() {
				_ = d.Flush() // the table may be complete before the listener ends
				eventually(t, func() bool { return d.Put(testKey(2), nil, db.NoSync) != nil })
				require.ErrorContains(t, d.Put(testKey(2), nil, db.NoSync), "runtime.Goexit was called")
				require.ErrorIs(t, d.Put(testKey(2), nil, db.NoSync), db.ErrReadOnly)
				requireValue(t, d, testKey(1), testValue(1))
				require.Error(t, d.Close())
			})
		})
	}
}

// After a panic in the middle of a write, the contents of the log are unknown. A retry might append
// after a torn record.
func TestNothingIsWrittenToALogAfterAPanic(t *testing.T) {
	var armed atomic.Bool
	var writes atomic.Int64
	mem := vfs.NewMem()
	o := testOptions(nil)
	o.FS = wrap.NewFaulty(mem, func(op wrap.Op) *wrap.Fault {
		if filepath.Ext(op.Name) == ".log" && (op.Kind == wrap.OpWrite || op.Kind == wrap.OpSync) {
			writes.Add(1)
			if armed.Load() {
				panic(boom)
			}
		}
		return nil
	})
	d := openDir(t, "db", o)
	require.NoError(t, d.Put(testKey(1), testValue(1), db.Sync))
	armed.Store(true)
	require.PanicsWithValue(t, boom, func() { _ = d.Put(testKey(2), testValue(2), db.Sync) })
	before := writes.Load()
	for _, wo := range []*db.WriteOptions{db.Sync, db.NoSync, db.Buffered} {
		require.ErrorIs(t, d.Put(testKey(3), nil, wo), db.ErrReadOnly)
	}
	require.ErrorIs(t, d.Flush(), db.ErrReadOnly)
	require.ErrorContains(t, d.Close(), boom)
	require.Equal(t, before, writes.Load())
	o.FS = mem
	d = openDir(t, "db", o)
	defer d.Close()
	requireValue(t, d, testKey(1), testValue(1))
}
