package db_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/test/damage"
	"github.com/sievedb/sievedb/sstable"
	"github.com/sievedb/sievedb/vfs"
)

// FuzzIngest ingests files that may be no tables. Either one is refused and nothing changes, or the store
// shows the newest entry of each of its keys and finds no fault in itself.
func FuzzIngest(f *testing.F) {
	mem := vfs.NewMem()
	for i, entries := range [][]madeEntry{
		nil, keysFrom(0, 3, 5, "v"), keysFrom(100, 300, base.MaxSeq, "v"),
		{{"a", 7, "new"}, {"a", 6, ""}, {"a", 5, "old"}, {"key000001", 9, ""}},
	} {
		path := makeTable(f, mem, string(rune('a'+i)), entries)
		table := readFile(f, mem, path)
		f.Add(table)
		for at := 5; at < len(table); at += 1 + len(table)/5 {
			flipped := bytes.Clone(table)
			flipped[at] ^= 0x11
			f.Add(flipped)
		}
	}
	golden, err := filepath.Glob("../testdata/golden/*/db/*.[ls][ds][bt]")
	require.NoError(f, err)
	require.NotEmpty(f, golden)
	for _, path := range golden {
		if data, err := os.ReadFile(path); err == nil && len(data) < 64<<10 {
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, table []byte) {
		defer damage.Watch("an ingest")()
		mem := vfs.NewMem()
		d := mustOpen(t, &db.Options{FS: mem})
		require.NoError(t, d.Put(testKey(1), []byte("old"), db.NoSync))
		writeFile(t, mem, "table", table)
		_, err := d.Ingest(background, []string{"table"}, nil)
		require.Empty(t, namesOf(t, mem, base.FileTemp))
		if err != nil {
			require.ErrorContains(t, err, "table")
			require.Equal(t, map[string]string{string(testKey(1)): "old"}, contentsIn(t, d))
			require.NoError(t, d.Close())
			return
		}
		want := map[string]string{string(testKey(1)): "old"}
		for key, value := range newestEntries(t, mem) {
			if want[key] = value; value == "" {
				delete(want, key)
			}
		}
		got := map[string]string{}
		it, err := d.NewIterator(nil)
		require.NoError(t, err)
		for k, v := range it.All() {
			got[string(k)] = "=" + string(v)
		}
		require.NoError(t, it.Close())
		if want[string(testKey(1))] == "old" {
			want[string(testKey(1))] = "=old"
		}
		require.Equal(t, want, got)
		for key := range want {
			_, err := d.Get([]byte(key))
			require.NoError(t, err)
		}
		requireNoFaults(t, d)
		require.NoError(t, d.Put(testKey(1), []byte("new"), db.Sync))
		require.NoError(t, d.Compact(background, nil, nil))
		requireValue(t, d, testKey(1), []byte("new"))
		require.NoError(t, d.Close())
		d = mustOpen(t, &db.Options{FS: mem})
		requireValue(t, d, testKey(1), []byte("new"))
		require.NoError(t, d.Close())
	})
}

// newestEntries reads the table without a store: "=" and the value of each key, or "" if it is deleted.
func newestEntries(t *testing.T, mem *vfs.Mem) map[string]string {
	file, err := mem.Open("table")
	require.NoError(t, err)
	r, err := sstable.Open(file, sstable.ReaderOptions{})
	require.NoError(t, err)
	defer r.Close()
	it, err := r.NewIter(sstable.IterOptions{})
	require.NoError(t, err)
	defer it.Close()
	newest := map[string]string{}
	for ok := it.First(); ok; ok = it.Next() {
		k, _ := sstable.ParseKey(it.Key())
		if _, seen := newest[string(k.User)]; seen {
			continue
		}
		if newest[string(k.User)] = "=" + string(it.Value()); k.Deletion {
			newest[string(k.User)] = ""
		}
	}
	require.NoError(t, it.Err())
	return newest
}
