package db_test

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/sstable"
	"github.com/sievedb/sievedb/vfs"
)

// separateOptions separate values of 1,000 bytes and more, in a small tree.
func separateOptions(fs vfs.FS) *db.Options {
	o := testOptions(fs)
	o.Memtables.Size, o.Tables.Size, o.Compaction.MaxLevelBase = 64<<10, 64<<10, 256<<10
	o.Tables.SeparateValues = 1000
	return o
}

// valueOf returns a value of number n, of which every fourth is too small to be separated.
func valueOf(n int) []byte {
	if n%4 == 0 {
		return fmt.Appendf(nil, "small %d", n)
	}
	return bytes.Repeat(fmt.Appendf(nil, "%08d", n), 125+n%700)
}

// A value table with an entry that is no value is set aside alone, and the others are collected. The script
// values-live-apart-from-their-keys has one with a damaged block.
func TestOnlyTheDamagedValueTableIsSetAside(t *testing.T) {
	fs := vfs.NewMem()
	d := mustOpen(t, separateOptions(fs))
	put := func(every, as int) {
		for i := range 300 {
			if i%every < every-1 || every == 1 {
				require.NoError(t, d.Put(testKey(i), valueOf(4*i+as), nil))
			}
		}
		require.NoError(t, d.Flush())
	}
	put(1, 1)
	values, err := d.ValueTables()
	require.NoError(t, err)
	require.Greater(t, len(values), 1)
	require.NoError(t, d.Close())
	path := filepath.Join("db", values[0].Name)
	writeFile(t, fs, path, withTombstone(t, readFile(t, fs, path)))

	d = openTest(t, separateOptions(fs))
	for as := range 10 {
		put(3, as)
	}
	eventually(t, func() bool {
		after, err := d.ValueTables()
		require.NoError(t, err)
		require.Equal(t, values[0].Name, after[0].Name, "it stays as it is")
		return after[1].FileNum > values[len(values)-1].FileNum
	})
}

// withTombstone returns a value table as long as data, with its entries but the second, which is a tombstone with the
// key and the number of the first.
func withTombstone(t *testing.T, data []byte) []byte {
	fs := vfs.NewMem()
	writeFile(t, fs, "values", data)
	f, err := fs.Open("values")
	require.NoError(t, err)
	r, err := sstable.Open(f, sstable.ReaderOptions{})
	require.NoError(t, err)
	defer r.Close()
	it, err := r.NewIter(sstable.IterOptions{})
	require.NoError(t, err)
	defer it.Close()
	ids, err := r.IDs()
	require.NoError(t, err)
	for filling := []byte{}; len(filling) < 200; filling = append(filling, byte(len(filling)*len(filling)>>3)) {
		var out bytes.Buffer
		w := sstable.NewWriter(&out, sstable.WriterOptions{Values: true, IDs: ids, Compression: sstable.Snappy})
		for ok := it.First(); ok; ok = it.Next() {
			key, value := it.Key(), it.Value()
			if w.Entries() == 1 {
				seq, _ := base.SplitTrailer(base.Trailer(w.Largest()))
				key, value = base.AppendInternalKey(nil, base.UserKey(w.Largest()), seq, base.KindDelete), slices.Concat(value, filling)
			}
			require.NoError(t, w.Add(key, value))
		}
		require.NoError(t, it.Err())
		_, err = w.Finish()
		require.NoError(t, err)
		if out.Len() == len(data) {
			return out.Bytes()
		}
	}
	require.Fail(t, "no table has that length")
	return nil
}
