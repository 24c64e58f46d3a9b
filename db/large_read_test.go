//go:build !race

package db_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/test/damage"
	"github.com/stretchr/testify/require"
)

// The race detector allocates too, so allocations are counted without it.

// allocatedBy returns the bytes that f allocates, as a multiple of the size of a large value.
func allocatedBy(t *testing.T, what string, f func()) float64 {
	t.Helper()
	before := damage.Allocated()
	f()
	times := float64(damage.Allocated()-before) / largeSize
	t.Logf("%s allocated %.2f times the value's size", what, times)
	return times
}

// largeAmongSmall opens a store with one large value among small ones.
func largeAmongSmall(t *testing.T, dir string, compresses bool) (*db.DB, []byte) {
	t.Helper()
	d := openDir(t, dir, largeOptions())
	fill(t, d, 0, 2000)
	value := largeValue(largeSize, compresses)
	require.NoError(t, d.Put([]byte("key001000large"), value, db.NoSync))
	fill(t, d, 2000, 3000)
	return d, value
}

// walkPastLarge walks over the entries of largeAmongSmall, in one direction or the other.
func walkPastLarge(t *testing.T, it *db.Iterator, backward bool, value []byte) {
	n := 0
	move, ok := it.Next, it.First()
	if backward {
		move, ok = it.Prev, it.Last()
	}
	for ; ok; ok = move() {
		n++
		if len(it.Value()) > 1000 {
			require.True(t, bytes.Equal(value, it.Value()))
		}
	}
	require.NoError(t, it.Err())
	require.Equal(t, 3001, n)
}

// The bug: iterators and compactions kept a large value's block, stored and decompressed, until they were closed.
func TestALargeValueIsReadInFewCopies(t *testing.T) {
	for name, compresses := range map[string]bool{"stored raw": false, "compressed": true} {
		t.Run(name, func(t *testing.T) {
			d, value := largeAmongSmall(t, t.TempDir(), compresses)
			require.NoError(t, d.Flush())
			held := heapInUse()
			const slack = 0.3
			require.LessOrEqual(t, allocatedBy(t, "Get", func() {
				got, err := d.Get([]byte("key001000large"))
				require.NoError(t, err)
				require.True(t, bytes.Equal(value, got))
			}), 2.6+slack, "the stored block, the decompressed one, and the result")
			require.LessOrEqual(t, allocatedBy(t, "Check", func() {
				_, err := d.Check(t.Context())
				require.NoError(t, err)
			}), 4.7+slack, "each block is read alone, for the lookup of its keys, and together with the other tables")
			for _, backward := range []bool{false, true} {
				it, err := d.NewIterator(nil)
				require.NoError(t, err)
				require.LessOrEqual(t, allocatedBy(t, "a walk", func() { walkPastLarge(t, it, backward, value) }), 2.6+slack)
				require.LessOrEqual(t, heapInUse(), held+largeSlack, "the iterator has moved on")
				require.NoError(t, it.Close())
			}
			require.LessOrEqual(t, allocatedBy(t, "Compact", func() {
				require.NoError(t, d.Compact(context.Background(), nil, nil))
			}), 2.6+slack, "the stored block, the decompressed one, and the new one")
			require.LessOrEqual(t, heapInUse(), held+largeSlack)
			require.NoError(t, d.Close())
		})
	}
}

// copyDir copies the files of a directory, as they are after the process crashed but not the system.
func copyDir(t *testing.T, dir string) string {
	t.Helper()
	to := t.TempDir()
	names, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range names {
		if e.Name() == "LOCK" {
			continue
		}
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(to, e.Name()), data, 0o666))
	}
	return to
}

// The bug: a log with a large value was replayed into buffers that were kept.
func TestALargeValueIsRecoveredAndRepairedInFewCopies(t *testing.T) {
	dir := t.TempDir()
	o := largeOptions()
	o.Memtables.Size = 64 << 20 // all of it stays in the log
	d := openDir(t, dir, o)
	fill(t, d, 0, 1000)
	value := largeValue(largeSize, true)
	require.NoError(t, d.Put([]byte("large"), value, db.NoSync))
	fill(t, d, 1000, 3000)
	crashed, broken := copyDir(t, dir), copyDir(t, dir)
	require.NoError(t, d.Close())
	require.NoError(t, os.Remove(filepath.Join(broken, "CURRENT")))

	held := heapInUse()
	require.LessOrEqual(t, allocatedBy(t, "recovery", func() {
		d = openDir(t, crashed, largeOptions())
	}), 5.5, "the record, whose length is not known in advance, the memtable, and the compressed block")
	require.LessOrEqual(t, heapInUse(), held+largeSlack)
	requireSameLarge(t, d, value)
	require.NoError(t, d.Close())

	require.LessOrEqual(t, allocatedBy(t, "repair", func() {
		require.NoError(t, db.Repair(broken, largeOptions()))
	}), 9.0)
	require.LessOrEqual(t, heapInUse(), held+largeSlack)
	d = openDir(t, broken, largeOptions())
	requireSameLarge(t, d, value)
	require.NoError(t, d.Close())
}

func requireSameLarge(t *testing.T, d *db.DB, value []byte) {
	t.Helper()
	got, err := d.Get([]byte("large"))
	require.NoError(t, err)
	require.True(t, bytes.Equal(value, got))
	requireValue(t, d, testKey(2999), testValue(2999))
}
