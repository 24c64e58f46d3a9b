package db

import (
	"bytes"
	"encoding"
	"encoding/binary"
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/batch"
	"github.com/sievedb/sievedb/vfs"
)

var (
	_ encoding.BinaryAppender    = (*Batch)(nil)
	_ encoding.BinaryMarshaler   = (*Batch)(nil)
	_ encoding.BinaryUnmarshaler = (*Batch)(nil)
)

func batchEntries(b *Batch) (all []BatchEntry) {
	for i, e := range b.All() {
		if i != len(all) {
			return nil
		}
		all = append(all, e)
	}
	return all
}

func someBatch() (*Batch, []BatchEntry) {
	var b Batch
	b.Put([]byte("a"), []byte("1"))
	b.Delete([]byte("b"))
	b.Put(nil, nil)
	return &b, []BatchEntry{
		{Kind: EntryPut, Key: []byte("a"), Value: []byte("1")}, {Kind: EntryDelete, Key: []byte("b")}, {Kind: EntryPut, Key: []byte{}, Value: []byte{}},
	}
}

func TestABatchIsIteratedInTheOrderOfItsWrites(t *testing.T) {
	b, want := someBatch()
	require.Equal(t, want, batchEntries(b))
	require.Empty(t, batchEntries(new(Batch)))
	require.Empty(t, batchEntries(nil))
	for i := range b.All() {
		require.Zero(t, i)
		break
	}
	n := 0
	for range b.All() {
		b.Put([]byte("more"), nil)
		n++
	}
	require.Equal(t, len(want), n, "entries that the loop adds are not visited")
	require.Equal(t, 2*len(want), b.Len())
}

func TestABatchIsAppendedToAnother(t *testing.T) {
	b, want := someBatch()
	other, more := someBatch()
	b.Append(other)
	require.Equal(t, append(want, more...), batchEntries(b))
	require.Equal(t, more, batchEntries(other))
	b.Append(b)
	require.Equal(t, 12, b.Len())
	b.Append(nil)
	b.Append(new(Batch))
	require.Equal(t, 12, b.Len())
	d := openTest(t, testOptions(vfs.NewMem()))
	require.NoError(t, d.Apply(b, nil))
	requireValue(t, d, []byte("a"), []byte("1"))

	var empty Batch
	empty.Append(other)
	require.Equal(t, more, batchEntries(&empty))
	requireSameMemory(t, other, &empty)
}

func requireSameMemory(t *testing.T, a, b *Batch) {
	t.Helper()
	require.Equal(t, a.content.MemSize(), b.content.MemSize())
	require.Equal(t, a.Size(), b.Size())
}

func TestAppendKeepsErrorsForApply(t *testing.T) {
	d := openTest(t, testOptions(vfs.NewMem()))
	var tooLarge, b Batch
	tooLarge.Put(make([]byte, MaxKeySize+1), nil)
	b.Append(&tooLarge)
	require.ErrorIs(t, d.Apply(&b, nil), ErrTooLarge)

	original, _ := someBatch()
	copied := copyOf(original)
	b.Reset()
	b.Append(&copied)
	require.ErrorContains(t, d.Apply(&b, nil), "copy of another Batch")
}

func TestMarshalBinaryReturnsALogRecord(t *testing.T) {
	b, want := someBatch()
	data, err := b.MarshalBinary()
	require.NoError(t, err)
	record := batch.AppendRecord(nil, 0, base.KindSet, []byte("a"), []byte("1"))
	record = batch.AppendEntry(record, base.KindDelete, []byte("b"), nil)
	record = batch.AppendEntry(record, base.KindSet, nil, nil)
	record[8] = 3
	require.Equal(t, record, data)

	binary.LittleEndian.PutUint64(data, math.MaxUint64) // the sequence number is ignored
	var read Batch
	require.NoError(t, read.UnmarshalBinary(data))
	require.Equal(t, want, batchEntries(&read))
	requireSameMemory(t, b, &read)
	clear(data)
	require.Equal(t, want, batchEntries(&read), "UnmarshalBinary copies the bytes")

	prefixed, err := read.AppendBinary([]byte("prefix"))
	require.NoError(t, err)
	require.Equal(t, append([]byte("prefix"), record...), prefixed)

	data, err = new(Batch).MarshalBinary()
	require.NoError(t, err)
	require.NoError(t, read.UnmarshalBinary(data))
	require.Zero(t, read.Len())
	require.Zero(t, read.Size())
}

// The size in memory of a batch of many small entries exceeds the limit long before its log record
// does.
func TestABatchTooLargeInMemoryIsRefusedEverywhere(t *testing.T) {
	var b Batch
	b.Delete([]byte("k"))
	data, err := b.MarshalBinary()
	require.NoError(t, err)
	entry, entries := data[batch.HeaderLen:], int(MaxBatchSize/b.content.MemSize())+1
	data = append(data[:batch.HeaderLen:batch.HeaderLen], bytes.Repeat(entry, entries)...)
	binary.LittleEndian.PutUint32(data[8:], uint32(entries))
	require.Less(t, len(data), MaxBatchSize/8)
	require.ErrorIs(t, b.UnmarshalBinary(data), ErrTooLarge)
	require.Equal(t, 1, b.Len(), "the batch is unchanged")

	for b.content.MemSize() <= MaxBatchSize {
		b.Append(&b)
	}
	_, err = b.MarshalBinary()
	require.ErrorIs(t, err, ErrTooLarge)
	require.ErrorIs(t, openTest(t, testOptions(vfs.NewMem())).Apply(&b, nil), ErrTooLarge)
}

func TestUnmarshalBinaryRefusesCorruptBytes(t *testing.T) {
	b, want := someBatch()
	data, err := b.MarshalBinary()
	require.NoError(t, err)
	for n := range data {
		require.ErrorIs(t, b.UnmarshalBinary(data[:n]), ErrCorruption, n)
	}
	require.ErrorIs(t, b.UnmarshalBinary(append(data, 0)), ErrCorruption)
	require.ErrorIs(t, b.UnmarshalBinary(batch.AppendRecord(nil, 0, base.KindSet, make([]byte, MaxKeySize+1), nil)), ErrTooLarge)
	require.Equal(t, want, batchEntries(b), "the batch is unchanged")

	copied := copyOf(b)
	require.ErrorContains(t, copied.UnmarshalBinary(data), "copy of another Batch")
	_, err = copied.MarshalBinary()
	require.ErrorContains(t, err, "copy of another Batch")
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
		var b Batch
		if err := b.UnmarshalBinary(data); err != nil {
			require.True(t, errors.Is(err, ErrCorruption) || errors.Is(err, ErrTooLarge), err)
			require.Zero(t, b.Len())
			return
		}
		require.Len(t, batchEntries(&b), b.Len())
		var again Batch
		for _, e := range b.All() {
			if e.Kind == EntryDelete {
				again.Delete(e.Key)
			} else {
				again.Put(e.Key, e.Value)
			}
		}
		made, err := again.MarshalBinary()
		require.NoError(t, err)
		require.Equal(t, again.content.MemSize(), b.content.MemSize())
		require.LessOrEqual(t, again.Size(), b.Size())
		var twice Batch
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
	var empty Batch
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
