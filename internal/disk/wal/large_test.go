package wal

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRecordsOfSeveralPiecesAreReadBack(t *testing.T) {
	rnd := newRand(t)
	var records [][]byte
	for _, n := range []int{1, 3 << 20, 100, maxFramed, 0, maxFramed + 1, 5 << 20, blockSize - headerSize, 7} {
		records = append(records, random(rnd, n))
	}
	f := newMemFile()
	w := NewWriter(f)
	writeAll(t, w, records)
	require.EqualValues(t, f.Len(), w.Size())
	got, err := readAll(open(f.Bytes(), ReaderOptions{}))
	require.Equal(t, io.EOF, err)
	requireRecords(t, records, got)
}

// writeAll writes records by every method that does.
func writeAll(t *testing.T, w *Writer, records [][]byte) {
	t.Helper()
	for i, p := range records {
		if i%2 == 0 { // it is written together with the records buffered before
			require.NoError(t, w.BufferRecord(p))
		} else {
			require.NoError(t, w.WriteRecordParts(p[:len(p)/3], nil, p[len(p)/3:]))
		}
	}
	require.NoError(t, w.Flush())
}

// partsFile is a mappedFile in memory that counts the calls of Write and WriteParts.
type partsFile struct {
	*memFile
	calls, parts int
}

func (f *partsFile) Write(p []byte) (int, error) {
	f.calls++
	return f.memFile.Write(p)
}

func (f *partsFile) WriteParts(parts ...[]byte) (int, error) {
	f.parts++
	return f.memFile.Write(bytes.Join(parts, nil))
}

func (f *partsFile) Cut() error { return nil }

// Records of every length at every place of a block are the same bytes, written at once or in parts.
func TestARecordWrittenInPartsIsTheSameRecord(t *testing.T) {
	rnd := newRand(t)
	for range 20 {
		records := [][]byte{random(rnd, rnd.Intn(blockSize)), random(rnd, maxCopied), random(rnd, maxCopied+1), nil,
			random(rnd, blockSize-2*headerSize-rnd.Intn(20)), random(rnd, rnd.Intn(5*blockSize)), random(rnd, 2<<20)}
		plain, mapped := newMemFile(), &partsFile{memFile: newMemFile()}
		writeAll(t, NewWriter(plain), records)
		w := NewWriter(mapped)
		writeAll(t, w, records)
		require.Equal(t, plain.Bytes(), mapped.Bytes())
		require.EqualValues(t, len(plain.Bytes()), w.Size())
	}
}

// A process that is killed must leave all of a record or none, so each has one Write of its own, of any size.
func TestARecordOfAMappedLogIsOneWrite(t *testing.T) {
	f := &partsFile{memFile: newMemFile()}
	require.NoError(t, NewWriter(f).BufferSplit([]byte("first"), []byte("last")))
	require.Equal(t, 1, f.calls)
	f = &partsFile{memFile: newMemFile()}
	w := NewWriter(f)
	large := make([]byte, 16<<20)
	require.NoError(t, w.WriteRecord(large[:100]))
	require.Equal(t, []int{1, 0}, []int{f.calls, f.parts})
	require.NoError(t, w.BufferRecord(large))
	require.Equal(t, []int{1, 1}, []int{f.calls, f.parts})
	require.NoError(t, w.WriteRecordParts(large[:3<<20], large))
	require.Equal(t, []int{1, 2}, []int{f.calls, f.parts})
	for _, piece := range w.pieces[:cap(w.pieces)] {
		require.Nil(t, piece, "the caller's memory is not kept")
	}
}

func TestARecordInPartsNeedsNoMemory(t *testing.T) {
	w := NewWriter(discardParts{})
	value := make([]byte, 16<<10)
	write := func() { require.NoError(t, w.WriteRecordParts(value[:20], value)) }
	write()
	require.Zero(t, testing.AllocsPerRun(100, write))
}

type discardParts struct{ discard }

func (discardParts) WriteParts(parts ...[]byte) (n int, err error) {
	for _, p := range parts {
		n += len(p)
	}
	return n, nil
}

func (discardParts) Cut() error { return nil }

// failsLater is a File whose Writes fail after the first left ones.
type failsLater struct {
	discard
	left int
}

func (f *failsLater) Write(p []byte) (int, error) {
	if f.left--; f.left < 0 {
		return 0, errors.New("broken")
	}
	return len(p), nil
}

func TestAFailureWithinALargeRecordIsFinal(t *testing.T) {
	f := &failsLater{left: 2}
	w := NewWriter(f)
	require.ErrorContains(t, w.WriteRecord(make([]byte, 8<<20)), "it accepts no more records")
	f.left = 100
	require.ErrorContains(t, w.WriteRecord([]byte("x")), "it accepts no more records")
	require.Equal(t, 100, f.left, "nothing is written after an incomplete record")
}

// The reader kept the memory of a large record to the end of the log.
func TestAReaderReleasesTheMemoryOfALargeRecord(t *testing.T) {
	rnd := newRand(t)
	log, _ := encode(t, random(rnd, 10<<20), random(rnd, 100), random(rnd, 2*blockSize), random(rnd, 2*blockSize))
	r := open(log, ReaderOptions{})
	for range 2 {
		_, err := r.Next()
		require.NoError(t, err)
	}
	for range 2 { // the first of them still uses the present buffer
		_, err := r.Next()
		require.NoError(t, err)
	}
	require.LessOrEqual(t, cap(r.asm.buf), maxKeptBuffer)
}
