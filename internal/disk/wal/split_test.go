package wal

import (
	"bytes"
	"io"
	"testing"

	"github.com/stretchr/testify/require"
)

// A record of BufferSplit is read as one record and recognized. Other records are not recognized as
// such, even if they have several chunks.
func TestSplitRecordsAreRecognized(t *testing.T) {
	f := newMemFile()
	w := NewWriter(f)
	require.NoError(t, w.BufferSplit([]byte("first"), []byte("last")))
	require.Zero(t, f.writes, "it is buffered")
	records := [][]byte{{}, []byte("short"), bytes.Repeat([]byte("l"), 3*blockSize)}
	for fill := blockSize - 40; fill < blockSize; fill++ { // to each of the last positions of a block
		records = append(records, bytes.Repeat([]byte("f"), fill))
	}
	for _, p := range records {
		require.NoError(t, w.WriteRecord(p))
	}
	require.Equal(t, len(records), f.writes)
	r := NewReader(bytes.NewReader(f.Bytes()), int64(f.Len()), ReaderOptions{})
	record, err := r.Next()
	require.NoError(t, err)
	require.Equal(t, "firstlast", string(record))
	require.True(t, r.Split())
	require.Zero(t, r.Offset())
	for _, want := range records {
		record, err := r.Next()
		require.NoError(t, err)
		require.True(t, bytes.Equal(want, record))
		require.False(t, r.Split())
	}
	_, err = r.Next()
	require.Equal(t, io.EOF, err)
	require.Panics(t, func() { _ = w.BufferSplit([]byte("first"), []byte("last")) })
}
