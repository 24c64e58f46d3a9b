package db_test

import (
	"bytes"
	"context"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/vfs"
)

// twentyTables returns a store whose keys 0 to 9,999 are in about twenty tables of the last level.
func twentyTables(t testing.TB, fs vfs.FS) *db.DB {
	t.Helper()
	o := testOptions(fs)
	o.Tables.Size = 64 << 10
	o.Tables.Compression = db.NoCompression
	d := openTest(t, o)
	fill(t, d, 0, 10_000)
	require.NoError(t, d.Compact(t.Context(), nil, nil))
	return d
}

// requireEmpty requires that an iterator finds no key from lower to upper.
func requireEmpty(t testing.TB, d *db.DB, lower, upper []byte) {
	t.Helper()
	it, err := d.NewIterator(&db.IterOptions{LowerBound: lower, UpperBound: upper})
	require.NoError(t, err)
	require.False(t, it.First())
	require.NoError(t, it.Close())
}

func tableCount(t testing.TB, d *db.DB) int {
	t.Helper()
	infos, err := d.Tables()
	require.NoError(t, err)
	return len(infos)
}

// Without snapshots only the ends of the range are read, and all other tables of it go at once. Meanwhile a sample of
// what its tombstones hide may be looked up, to choose compactions; those reads are not counted.
func TestADeletedRangeFreesItsTables(t *testing.T) {
	var read atomic.Int64
	d := twentyTables(t, wrap.NewFaulty(vfs.NewMem(), func(op wrap.Op) *wrap.Fault {
		if op.Kind == wrap.OpRead && !bytes.Contains(debug.Stack(), []byte("Scheduler).weigh")) {
			read.Add(1)
		}
		return nil
	}))
	before, reads := tableCount(t, d), read.Load()
	require.NoError(t, d.DeleteRange(t.Context(), testKey(100), testKey(9_900), nil))
	require.LessOrEqual(t, tableCount(t, d), 6, "of %d", before)
	require.LessOrEqual(t, read.Load()-reads, int64(16), "two tables are read, of %d", before)
	for i := 0; i < 10_000; i += 7 {
		has, err := d.Has(testKey(i))
		require.NoError(t, err)
		require.Equal(t, i < 100 || i >= 9_900, has, "key %d", i)
	}
	requireNoFaults(t, d)
}

// Tables that a snapshot needs stay until it is closed.
func TestADeletedRangeFreesItsTablesWhenTheSnapshotIsClosed(t *testing.T) {
	d := twentyTables(t, vfs.NewMem())
	before := tableCount(t, d)
	s := d.NewSnapshot()
	require.NoError(t, d.DeleteRange(t.Context(), nil, nil, nil))
	require.GreaterOrEqual(t, tableCount(t, d), before)
	for i := 0; i < 10_000; i += 97 {
		value, err := s.Get(testKey(i))
		require.NoError(t, err)
		require.Equal(t, testValue(i), value)
		has, err := d.Has(testKey(i))
		require.NoError(t, err)
		require.False(t, has)
	}
	require.NoError(t, s.Close())
	eventually(t, func() bool { return tableCount(t, d) < before/2 })
	requireEmpty(t, d, nil, nil)
}

func TestDeleteRangeRefusesWhatItCannotDo(t *testing.T) {
	d := openTest(t, testOptions(vfs.NewMem()))
	fill(t, d, 0, 100)
	require.ErrorContains(t, d.DeleteRange(t.Context(), []byte("b"), []byte("a"), nil), "start is after limit")
	var none context.Context
	require.ErrorContains(t, d.DeleteRange(none, nil, nil, nil), "the context is nil")
	require.NoError(t, d.DeleteRange(t.Context(), testKey(5), testKey(5), nil))
	require.ErrorIs(t, d.DeleteRange(t.Context(), make([]byte, db.MaxKeySize+1), nil, nil), db.ErrTooLarge)
	require.NoError(t, d.Flush())
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for range 20 { // the bug: about half of the calls deleted
		require.Equal(t, context.Canceled, d.DeleteRange(ended, nil, nil, nil))
	}
	require.Len(t, contentsIn(t, d), 100)
	var b db.Batch
	b.DeleteRange(nil, nil)
	_, err := b.MarshalBinary()
	require.ErrorContains(t, err, "no binary form")
	require.Equal(t, 1, b.Len())
	b.Reset()
	require.Zero(t, b.Len())
	var kinds []db.EntryKind
	b.Put([]byte("a"), nil)
	b.DeleteRange([]byte("a"), []byte("c"))
	b.Delete([]byte("d"))
	b.DeleteRange(nil, []byte("b"))
	for i, e := range b.All() {
		require.Equal(t, len(kinds), i)
		kinds = append(kinds, e.Kind)
	}
	require.Equal(t, []db.EntryKind{db.EntryPut, db.EntryDeleteRange, db.EntryDelete, db.EntryDeleteRange}, slices.Clone(kinds))
}
