package db

import (
	"bytes"
	"testing"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/stretchr/testify/require"
)

func TestTheLongestKeyIsWrittenAndFound(t *testing.T) {
	dir := t.TempDir()
	d, err := Open(dir, largeOptions())
	require.NoError(t, err)
	key := func(last byte) []byte { return append(bytes.Repeat([]byte("k"), MaxKeySize-1), last) }
	for i := range byte(8) {
		require.NoError(t, d.Put(key('a'+i), []byte{i}, NoSync))
		require.NoError(t, d.Put(testKey(int(i)), testValue(int(i)), NoSync))
	}
	var b Batch
	b.Delete(key('c'))
	require.NoError(t, d.Apply(&b, Sync))
	require.NoError(t, d.Close())
	for round := range 2 {
		d, err = Open(dir, largeOptions())
		require.NoError(t, err)
		for i := range byte(8) {
			got, err := d.Get(key('a' + i))
			if i == 2 {
				require.Equal(t, ErrNotFound, err)
				continue
			}
			require.NoError(t, err)
			require.Equal(t, []byte{i}, got)
		}
		if round == 0 {
			require.NoError(t, d.Compact(t.Context(), nil, nil))
		}
		_, err = d.Check(t.Context())
		require.NoError(t, err)
		require.NoError(t, d.Close())
	}
}

// LevelDB and goleveldb write longer keys than SieveDB.
func TestLongerKeysOfOtherProgramsAreReadAndReleased(t *testing.T) {
	dir := t.TempDir()
	d, err := Open(dir, largeOptions())
	require.NoError(t, err)
	fill(t, d, 0, 100)
	held := heapInUse()
	const keyLen = 12 << 20
	key := func(last byte) []byte { return append(bytes.Repeat([]byte("long"), keyLen/4), last) }
	putUnchecked(t, d, key('a'), []byte("1"))
	putUnchecked(t, d, key('b'), []byte("2"))
	require.NoError(t, d.Close()) // the entries in the log are recovered later
	for round := range 2 {
		d, err = Open(dir, largeOptions())
		require.NoError(t, err)
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
		for _, w := range d.writers.Idle {
			_, maxKept := d.opts.spareWriters()
			require.LessOrEqual(t, w.MemoryKept(), maxKept)
		}
		// The bounds of the table, in the version and in the reader, and its index stay in memory.
		require.LessOrEqual(t, heapInUse(), held+6*keyLen+largeSlack)
		require.NoError(t, d.Close())
		require.LessOrEqual(t, heapInUse(), held+largeSlack, "round %d", round)
	}
}

// putUnchecked writes an entry as a program without SieveDB's limits does.
func putUnchecked(t *testing.T, d *DB, key, value []byte) {
	t.Helper()
	require.NoError(t, d.commit.run(d, &commitRequest{alone: func(d *DB) error {
		return d.commitEntry(base.KindSet, key, value, withSystem)
	}}))
}
