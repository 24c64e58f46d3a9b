package main

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/vfs"
)

func TestReadsAreCountedByKindOfBlock(t *testing.T) {
	dir := t.TempDir()
	store, err := db.Open(dir, nil)
	require.NoError(t, err)
	for i := range 1000 {
		require.NoError(t, store.Put(fmt.Appendf(nil, "key%04d", i), make([]byte, 100), db.NoSync))
	}
	require.NoError(t, store.Flush())
	require.NoError(t, store.Close())

	reads, err := readLayouts(vfs.OS, dir)
	require.NoError(t, err)
	require.Len(t, reads.layouts, 1)
	for path, l := range reads.layouts {
		require.Positive(t, l.lastData)
		require.Greater(t, l.index, l.lastData)
		read := func(offset uint64) {
			reads.observe(wrap.Op{Kind: wrap.OpRead, Name: path, Offset: int64(offset), Length: 10, N: 10})
		}
		read(0)              // data
		read(l.lastData)     // data
		read(l.lastData + 1) // after the data, such as a filter
		read(l.index)        // index
		read(l.size - 10)    // such as the footer
		read(l.index + 1)    // not the start of the index
		// From within the data to the end of the file, with filter and index.
		reads.observe(wrap.Op{Kind: wrap.OpRead, Name: path, Offset: 1, Length: int(l.size) - 1, N: int(l.size) - 1})
		reads.observe(wrap.Op{Kind: wrap.OpSize, Name: path})
		reads.observe(wrap.Op{Kind: wrap.OpRead, Name: filepath.Join(dir, "000001.log"), N: 10})
	}
	require.Equal(t, readCounts{Opening: 4, Index: 1, Data: 2}, reads.counts())

	var l lookups
	l.Gets = 2
	require.NoError(t, l.setReads(reads.counts(), wrap.Counts{Reads: 7, ReadBytes: 70}))
	require.Equal(t, lookups{Gets: 2, OpeningReads: 4, IndexReads: 1, DataReads: 2, DiskReads: 7, BytesRead: 70, ReadsPerGet: 3.5}, l)
	require.EqualError(t, l.setReads(reads.counts(), wrap.Counts{Reads: 8}),
		"8 reads of table files, but only 7 of tables that existed when the lookups began")

	reads.reset()
	require.Zero(t, reads.counts())
}
