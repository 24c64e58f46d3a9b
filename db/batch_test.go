package db

import (
	"bytes"
	"encoding/hex"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/disk/batch"
	"github.com/sievedb/sievedb/vfs"
)

//make:portable
//make:wasm
func TestBatchBytesAreLevelDBs(t *testing.T) {
	text, err := os.ReadFile("testdata/batch.hex")
	require.NoError(t, err)
	var want []byte
	for line := range strings.Lines(string(text)) {
		digits, _, _ := strings.Cut(line, "#")
		field, err := hex.DecodeString(strings.Join(strings.Fields(digits), ""))
		require.NoError(t, err, line)
		want = append(want, field...)
	}
	var b, read Batch
	b.Put([]byte("k"), []byte("value"))
	b.Delete([]byte("gone"))
	b.Put(nil, nil)
	require.Equal(t, want, b.content.Record(258))
	require.NoError(t, read.UnmarshalBinary(want))
	require.Equal(t, batchEntries(&b), batchEntries(&read))
	r, err := batch.NewReader(want)
	require.NoError(t, err)
	require.Equal(t, []uint64{258, 3}, []uint64{r.Seq, uint64(r.Count)})
}

func TestABatchIsAppliedWholeOrNotAtAll(t *testing.T) {
	d := openTest(t, testOptions(vfs.NewMem()))
	var b Batch
	b.Put([]byte("a"), []byte("1"))
	b.Put([]byte("a"), []byte("2"))
	b.Delete([]byte("b"))
	require.NoError(t, d.Apply(&b, nil))
	requireValue(t, d, []byte("a"), []byte("2"))
	require.NoError(t, d.Apply(&b, nil), "a batch may be applied again")

	b.Reset()
	require.Zero(t, b.Len())
	require.NoError(t, d.Apply(&b, nil), "an empty batch is fine")

	b.Put([]byte("c"), nil)
	b.Put(make([]byte, MaxKeySize+1), nil)
	require.ErrorIs(t, d.Apply(&b, nil), ErrTooLarge)
	_, err := d.Get([]byte("c"))
	require.Equal(t, ErrNotFound, err)
}

func TestABatchLargerThanTheWriteBufferFits(t *testing.T) {
	d := openTest(t, testOptions(vfs.NewMem()))
	var b Batch
	for i := range 2000 {
		b.Put(testKey(i), testValue(i))
	}
	require.Greater(t, b.Size(), d.opts.Memtables.Size)
	require.NoError(t, d.Apply(&b, NoSync))
	big := bytes.Repeat([]byte("x"), 1<<20)
	require.NoError(t, d.Put([]byte("big"), big, nil))
	settle(t, d)
	for i := range 2000 {
		requireValue(t, d, testKey(i), testValue(i))
	}
	requireValue(t, d, []byte("big"), big)
}
