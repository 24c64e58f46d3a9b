package db_test

import (
	"bytes"
	"encoding"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
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
	var b, read db.Batch
	b.Put([]byte("k"), []byte("value"))
	b.Delete([]byte("gone"))
	b.Put(nil, nil)
	require.Equal(t, want, b.Content().Record(258))
	require.NoError(t, read.UnmarshalBinary(want))
	require.Equal(t, batchEntries(&b), batchEntries(&read))
	r, err := batch.NewReader(want)
	require.NoError(t, err)
	require.Equal(t, []uint64{258, 3}, []uint64{r.Seq, uint64(r.Count)})
}

func TestABatchIsAppliedWholeOrNotAtAll(t *testing.T) {
	d := openTest(t, testOptions(vfs.NewMem()))
	var b db.Batch
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
	b.Put(make([]byte, db.MaxKeySize+1), nil)
	require.ErrorIs(t, d.Apply(&b, nil), db.ErrTooLarge)
	_, err := d.Get([]byte("c"))
	require.Equal(t, db.ErrNotFound, err)
}

func TestABatchLargerThanTheWriteBufferFits(t *testing.T) {
	d := openTest(t, testOptions(vfs.NewMem()))
	var b db.Batch
	for i := range 2000 {
		b.Put(testKey(i), testValue(i))
	}
	require.Greater(t, b.Size(), d.Opts().Memtables.Size)
	require.NoError(t, d.Apply(&b, db.NoSync))
	big := bytes.Repeat([]byte("x"), 1<<20)
	require.NoError(t, d.Put([]byte("big"), big, nil))
	settle(t, d)
	for i := range 2000 {
		requireValue(t, d, testKey(i), testValue(i))
	}
	requireValue(t, d, []byte("big"), big)
}

var (
	_ encoding.BinaryAppender    = (*db.Batch)(nil)
	_ encoding.BinaryMarshaler   = (*db.Batch)(nil)
	_ encoding.BinaryUnmarshaler = (*db.Batch)(nil)
)

func batchEntries(b *db.Batch) (all []db.BatchEntry) {
	for i, e := range b.All() {
		if i != len(all) {
			return nil
		}
		all = append(all, e)
	}
	return all
}

func someBatch() (*db.Batch, []db.BatchEntry) {
	var b db.Batch
	b.Put([]byte("a"), []byte("1"))
	b.Delete([]byte("b"))
	b.Put(nil, nil)
	return &b, []db.BatchEntry{
		{Kind: db.EntryPut, Key: []byte("a"), Value: []byte("1")}, {Kind: db.EntryDelete, Key: []byte("b")}, {Kind: db.EntryPut, Key: []byte{}, Value: []byte{}},
	}
}

func TestABatchIsIteratedAndAppendedInTheOrderOfItsWrites(t *testing.T) {
	b, want := someBatch()
	other, more := someBatch()
	require.Empty(t, batchEntries(nil))
	n := 0
	for range b.All() {
		b.Put([]byte("more"), nil)
		n++
	}
	require.Equal(t, len(want), n, "entries that the loop adds are not visited")
	require.Equal(t, 2*len(want), b.Len())

	b, _ = someBatch()
	b.Append(other)
	b.Append(nil)
	require.Equal(t, append(want, more...), batchEntries(b))
	d := openTest(t, testOptions(vfs.NewMem()))
	require.NoError(t, d.Apply(b, nil))
	requireValue(t, d, []byte("a"), []byte("1"))
	var tooLarge db.Batch
	tooLarge.Put(make([]byte, db.MaxKeySize+1), nil)
	b.Append(&tooLarge)
	require.ErrorIs(t, d.Apply(b, nil), db.ErrTooLarge)
}

func TestMarshalBinaryReturnsALogRecord(t *testing.T) {
	b, want := someBatch()
	record := b.Content().Record(0) // see TestBatchBytesAreLevelDBs
	data, err := b.MarshalBinary()
	require.NoError(t, err)
	require.Equal(t, record, data)
	binary.LittleEndian.PutUint64(data, math.MaxUint64) // the sequence number is ignored
	var read db.Batch
	require.NoError(t, read.UnmarshalBinary(data))
	clear(data)
	require.Equal(t, want, batchEntries(&read), "UnmarshalBinary copies the bytes")
	prefixed, err := read.AppendBinary([]byte("prefix"))
	require.NoError(t, err)
	require.Equal(t, append([]byte("prefix"), record...), prefixed)
	require.ErrorIs(t, read.UnmarshalBinary(prefixed), db.ErrCorruption)
	require.Equal(t, want, batchEntries(&read), "the batch is unchanged")
}

// The size in memory of a batch of many small entries exceeds the limit long before its log record does.
func TestABatchTooLargeInMemoryIsRefusedEverywhere(t *testing.T) {
	var b db.Batch
	b.Delete([]byte("k"))
	data, err := b.MarshalBinary()
	require.NoError(t, err)
	entry, entries := data[batch.HeaderLen:], int(db.MaxBatchSize/b.Content().MemSize())+1
	data = append(data[:batch.HeaderLen:batch.HeaderLen], bytes.Repeat(entry, entries)...)
	binary.LittleEndian.PutUint32(data[8:], uint32(entries))
	require.Less(t, len(data), db.MaxBatchSize/8)
	require.ErrorIs(t, b.UnmarshalBinary(data), db.ErrTooLarge)
	require.Equal(t, 1, b.Len(), "the batch is unchanged")

	for b.Content().MemSize() <= db.MaxBatchSize {
		b.Append(&b)
	}
	_, err = b.MarshalBinary()
	require.ErrorIs(t, err, db.ErrTooLarge)
	require.ErrorIs(t, openTest(t, testOptions(vfs.NewMem())).Apply(&b, nil), db.ErrTooLarge)
}

// FuzzBatchBytes checks that accepted bytes are a batch that Put and Delete could have built.
func FuzzBatchBytes(f *testing.F) {
	b, _ := someBatch()
	data, err := b.MarshalBinary()
	require.NoError(f, err)
	f.Add(data)
	f.Add(data[:len(data)-1])
	f.Add([]byte("00000000\x03\x00\x00\x00\x01\x010\x00\x00\x00\x00\x80\x00")) // a length encoded in two bytes instead of one
	f.Fuzz(func(t *testing.T, data []byte) {
		var b db.Batch
		if err := b.UnmarshalBinary(data); err != nil {
			require.True(t, errors.Is(err, db.ErrCorruption) || errors.Is(err, db.ErrTooLarge), err)
			require.Zero(t, b.Len())
			return
		}
		require.Len(t, batchEntries(&b), b.Len())
		var again db.Batch
		for _, e := range b.All() {
			if e.Kind == db.EntryDelete {
				again.Delete(e.Key)
			} else {
				again.Put(e.Key, e.Value)
			}
		}
		made, err := again.MarshalBinary()
		require.NoError(t, err)
		require.Equal(t, again.Content().MemSize(), b.Content().MemSize())
		require.LessOrEqual(t, again.Size(), b.Size())
		var twice db.Batch
		require.NoError(t, twice.UnmarshalBinary(made))
		require.Equal(t, batchEntries(&b), batchEntries(&twice))
	})
}

func TestEntriesAreTheBatchsOwnBytes(t *testing.T) {
	b, _ := someBatch()
	data, err := b.MarshalBinary()
	require.NoError(t, err)
	entries, err := b.Entries()
	require.NoError(t, err)
	require.Equal(t, data[12:], entries)
	require.Equal(t, len(entries), cap(entries), "appending must not change the batch")
	again, err := b.Entries()
	require.NoError(t, err)
	require.Same(t, &entries[0], &again[0])
	var empty db.Batch
	empty.Grow(100)
	empty.Grow(-1)
	require.Zero(t, empty.Len()+empty.Size())
	none, err := empty.Entries()
	require.NoError(t, err)
	require.Nil(t, none)
	b.DeleteRange(nil, nil)
	_, err = b.Entries()
	require.ErrorContains(t, err, "DeleteRange")
}
