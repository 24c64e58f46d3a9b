package db_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/batch"
	"github.com/sievedb/sievedb/internal/disk/wal"
)

func TestTheLongestKeyIsWrittenAndFound(t *testing.T) {
	dir := t.TempDir()
	d := openDir(t, dir, largeOptions())
	key := func(last byte) []byte { return append(bytes.Repeat([]byte("k"), db.MaxKeySize-1), last) }
	for i := range byte(8) {
		require.NoError(t, d.Put(key('a'+i), []byte{i}, db.NoSync))
		require.NoError(t, d.Put(testKey(int(i)), testValue(int(i)), db.NoSync))
	}
	var b db.Batch
	b.Delete(key('c'))
	require.NoError(t, d.Apply(&b, db.Sync))
	require.NoError(t, d.Close())
	for round := range 2 {
		d = openDir(t, dir, largeOptions())
		for i := range byte(8) {
			got, err := d.Get(key('a' + i))
			if i == 2 {
				require.Equal(t, db.ErrNotFound, err)
				continue
			}
			require.NoError(t, err)
			require.Equal(t, []byte{i}, got)
		}
		if round == 0 {
			require.NoError(t, d.Compact(t.Context(), nil, nil))
		}
		_, err := d.Check(t.Context())
		require.NoError(t, err)
		require.NoError(t, d.Close())
	}
}

// LevelDB and goleveldb write longer keys than SieveDB.
func TestLongerKeysOfOtherProgramsAreReadAndReleased(t *testing.T) {
	dir := t.TempDir()
	d := openDir(t, dir, largeOptions())
	fill(t, d, 0, 100)
	held := heapInUse()
	const keyLen = 12 << 20
	key := func(last byte) []byte { return append(bytes.Repeat([]byte("long"), keyLen/4), last) }
	require.NoError(t, d.Flush())
	last := d.Metrics().LastSequence
	require.NoError(t, d.Close())
	writeUnchecked(t, dir, last, key('a'), key('b'))
	for round := range 2 {
		d = openDir(t, dir, largeOptions())
		it, err := d.NewIterator(nil)
		require.NoError(t, err)
		require.True(t, it.SeekGE(key('a')))
		require.Equal(t, "1", string(it.Value()))
		require.True(t, it.Next())
		require.Equal(t, "2", string(it.Value()))
		require.True(t, it.Prev())
		require.NoError(t, it.Close())
		if round == 0 {
			require.NoError(t, d.Compact(t.Context(), nil, nil))
		}
		for _, w := range d.Spares().Idle {
			_, maxKept := d.Opts().SpareWriters()
			require.LessOrEqual(t, w.MemoryKept(), maxKept)
		}
		// The bounds of the table, in the version and in the reader, and its index stay in memory.
		require.LessOrEqual(t, heapInUse(), held+6*keyLen+largeSlack)
		require.NoError(t, d.Close())
		require.LessOrEqual(t, heapInUse(), held+largeSlack, "round %d", round)
	}
}

// writeUnchecked replaces the empty log of a closed database by one with entries that were written without SieveDB's
// limits, after the sequence number last.
func writeUnchecked(t *testing.T, dir string, last uint64, keys ...[]byte) {
	t.Helper()
	logs, err := filepath.Glob(filepath.Join(dir, "*.log"))
	require.NoError(t, err)
	require.Len(t, logs, 1)
	require.NoError(t, os.Remove(filepath.Join(dir, base.ClosedName)))
	f, err := os.Create(logs[0])
	require.NoError(t, err)
	w := wal.NewWriter(f)
	for i, key := range keys {
		require.NoError(t, w.WriteRecordParts(batch.RecordParts(last+1+uint64(i), base.KindSet, key, fmt.Append(nil, i+1))...))
	}
	require.NoError(t, w.Close())
}
