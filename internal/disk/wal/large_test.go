package wal

import (
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
	for i, p := range records {
		if i%2 == 0 { // it is written together with the records buffered before
			require.NoError(t, w.BufferRecord(p))
		} else {
			require.NoError(t, w.WriteRecordParts(p[:len(p)/3], p[len(p)/3:]))
		}
	}
	require.NoError(t, w.Flush())
	require.EqualValues(t, f.Len(), w.Size())
	got, err := readAll(open(f.Bytes(), ReaderOptions{}))
	require.Equal(t, io.EOF, err)
	requireRecords(t, records, got)
}

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
