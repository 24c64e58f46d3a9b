package db_test

import (
	"bytes"
	"encoding/binary"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/vfs"
)

// The bug: the memtable that was made for a large value stayed in memory until the next write.
func TestAnOversizedMemtableIsFlushedAutomatically(t *testing.T) {
	d := openDir(t, t.TempDir(), largeOptions())
	usual := d.State().Mem.Capacity()
	for round := range uint64(3) {
		require.NoError(t, d.Put([]byte("large"), make([]byte, 8<<20), db.NoSync))
		require.LessOrEqual(t, d.State().Mem.Capacity(), usual)
		// The memtable leaves the state a moment before its flush counts.
		eventually(t, func() bool { return len(d.State().Imm) == 0 && d.Metrics().Flushes.Count > round })
		settle(t, d)
		// The large memtable replaced the empty one, which was not flushed.
		require.Equal(t, round+1, d.Metrics().Flushes.Count)
	}
	require.NoError(t, d.Close())
}

// largeNumbered returns a value of more than a mebibyte that contains its number.
func largeNumbered(i uint64) []byte {
	value := bytes.Repeat(binary.BigEndian.AppendUint64(nil, i), largeWrite/8+1)
	return value
}

func largeNumberOf(t *testing.T, value []byte) uint64 {
	i := binary.BigEndian.Uint64(value)
	require.Zero(t, len(value)%8)
	require.Equal(t, i, binary.BigEndian.Uint64(value[len(value)-8:]))
	return i
}

func TestLargeWritesConcurrentWithSmallOnesAndReaders(t *testing.T) {
	dir := t.TempDir()
	o := &db.Options{Memtables: db.MemtableOptions{Size: 64 << 10}, Tables: db.TableOptions{Size: 1 << 20}}
	d := openDir(t, dir, o)
	const rounds = 40
	large := []byte("large")
	require.NoError(t, d.Put(large, largeNumbered(0), nil))
	var acked, done atomic.Uint64
	var group sync.WaitGroup
	group.Go(func() {
		defer done.Store(1)
		for i := uint64(1); i <= rounds; i++ {
			wo := []*db.WriteOptions{db.Sync, db.NoSync, db.Buffered}[i%3]
			if err := d.Put(large, largeNumbered(i), wo); err != nil {
				t.Error(err)
				return
			}
			acked.Store(i)
		}
	})
	group.Go(func() {
		for i := 0; done.Load() == 0; i++ {
			if err := d.Put(testKey(i%1000), testValue(i%1000), db.NoSync); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for done.Load() == 0 {
		least := acked.Load()
		got, err := d.Get(large)
		require.NoError(t, err)
		require.GreaterOrEqual(t, largeNumberOf(t, got), least)
		it, err := d.NewIterator(nil)
		require.NoError(t, err)
		require.True(t, it.SeekGE(large))
		require.GreaterOrEqual(t, largeNumberOf(t, it.Value()), least)
		require.NoError(t, it.Close())
	}
	group.Wait()
	require.NoError(t, d.Close())
	d = openDir(t, dir, o)
	got, err := d.Get(large)
	require.NoError(t, err)
	require.EqualValues(t, rounds, largeNumberOf(t, got))
	require.NoError(t, d.Close())

	require.ErrorIs(t, d.Put(large, got, nil), db.ErrClosed)
	readOnly := openDir(t, dir, &db.Options{ReadOnly: true})
	require.ErrorIs(t, readOnly.Put(large, got, nil), db.ErrReadOnly)
	require.NoError(t, readOnly.Close())
}

// If the log fails or the process dies, the acknowledged large writes survive, and at most the
// write that was in progress.
func TestAFailedLargeWriteIsThereEntirelyOrNotAtAll(t *testing.T) {
	mem := vfs.NewMem()
	d := openTest(t, &db.Options{FS: mem, Memtables: db.MemtableOptions{Size: 64 << 10}})
	require.NoError(t, d.Put([]byte("small"), []byte("1"), db.Sync))
	require.NoError(t, d.Put([]byte("large"), largeNumbered(1), db.Sync))
	require.NoError(t, d.Delete(bytes.Repeat([]byte("k"), db.MaxKeySize), db.Sync), "a large deletion")
	require.NoError(t, d.Put([]byte("large"), largeNumbered(2), db.NoSync))
	crashed := mem.Crash()
	for _, fs := range []vfs.FS{crashed, copyFS(t, mem)} {
		again := openTest(t, &db.Options{FS: fs})
		requireValue(t, again, []byte("small"), []byte("1"))
		got, err := again.Get([]byte("large"))
		require.NoError(t, err)
		require.Contains(t, []uint64{1, 2}, largeNumberOf(t, got))
		requireAbsent(t, again, bytes.Repeat([]byte("k"), db.MaxKeySize))
	}
}
