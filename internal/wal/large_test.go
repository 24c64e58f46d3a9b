package wal

import (
	"bytes"
	"errors"
	"io"
	"runtime"
	"testing"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/stretchr/testify/require"
)

// A large record was copied whole, between its chunk headers, into a buffer that grew
// step by step: five times its size was allocated.
func TestALargeRecordIsWrittenWithoutACopyOfIt(t *testing.T) {
	const size = 40 << 20
	record := random(newRand(t), size)
	w := NewWriter(discard{})
	before := allocated()
	require.NoError(t, w.WriteRecord(record))
	require.LessOrEqual(t, allocated()-before, uint64(maxKeptBuffer+1<<20))
	require.LessOrEqual(t, cap(w.buf), maxKeptBuffer)
	require.EqualValues(t, size+(size+blockSize-headerSize-1)/(blockSize-headerSize)*headerSize, w.Size())
}

func TestRecordsOfSeveralPiecesAreReadBack(t *testing.T) {
	rnd := newRand(t)
	var records [][]byte
	for _, n := range []int{1, 3 << 20, 100, maxFramed, 0, maxFramed + 1, 5 << 20, blockSize - headerSize, 7} {
		records = append(records, random(rnd, n))
	}
	f := newMemFile()
	w := NewWriter(f)
	for i, p := range records {
		if i%2 == 0 { // what was buffered before goes with it
			require.NoError(t, w.BufferRecord(p))
		} else {
			require.NoError(t, w.WriteRecordParts(p[:len(p)/3], p[len(p)/3:]))
		}
	}
	require.NoError(t, w.Flush())
	require.EqualValues(t, f.Len(), w.Size())
	got, err := readAll(open(f.Bytes(), ReaderOptions{}))
	require.Equal(t, io.EOF, err)
	require.Len(t, got, len(records))
	for i := range records {
		require.True(t, bytes.Equal(records[i], got[i]), "record %d", i)
	}
}

// failsLater is a File that takes so many Writes.
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
	require.ErrorContains(t, w.WriteRecord(make([]byte, 8<<20)), "it takes no more records")
	f.left = 100
	require.ErrorContains(t, w.WriteRecord([]byte("x")), "it takes no more records")
	require.Equal(t, 100, f.left, "nothing is written behind a record that was cut")
}

// After one large record the reader kept its memory to the end of the log.
func TestAReaderReleasesTheMemoryOfALargeRecord(t *testing.T) {
	rnd := newRand(t)
	log, _ := encode(t, random(rnd, 10<<20), random(rnd, 100), random(rnd, 2*blockSize), random(rnd, 2*blockSize))
	r := open(log, ReaderOptions{})
	for range 2 {
		_, err := r.Next()
		require.NoError(t, err)
	}
	for range 2 { // the first is read into what is there
		_, err := r.Next()
		require.NoError(t, err)
	}
	require.LessOrEqual(t, cap(r.asm.buf), maxKeptBuffer)
}

// allocated returns the bytes that the process has allocated so far.
func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

// The memory for a large record was doubled until it fitted: more than three times its size.
func TestALargeRecordIsReadIntoMemoryOfItsSize(t *testing.T) {
	const size = 33 << 20 // doubled memory would just not hold it
	record := random(newRand(t), size)
	log, _ := encode(t, []byte("x"), record, []byte("y"))
	r := open(log, ReaderOptions{})
	_, err := r.Next()
	require.NoError(t, err)
	before := allocated()
	got, err := r.Next()
	require.NoError(t, err)
	require.LessOrEqual(t, allocated()-before, uint64(size+size/8+4*minMeasured))
	require.True(t, bytes.Equal(record, got))
	_, err = r.Next()
	require.NoError(t, err)

	for name, harm := range map[string]func(log []byte) []byte{
		"cut":             func(log []byte) []byte { return log[:size/2] },
		"a wrong length":  func(log []byte) []byte { log[20<<20+4]++; return log },
		"unknown kind":    func(log []byte) []byte { log[20<<20+6] = 9; return log },
		"zeros at a page": func(log []byte) []byte { clear(log[20<<20 : 21<<20]); return log },
	} {
		r := open(harm(bytes.Clone(log)), ReaderOptions{})
		_, err := r.Next()
		require.NoError(t, err, name)
		_, err = r.Next()
		require.ErrorIs(t, err, base.ErrCorruption, name)
	}
}
