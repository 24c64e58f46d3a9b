package wal

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/test/race"
)

func TestEachRecordIsOneWrite(t *testing.T) {
	f := newMemFile()
	w := NewWriter(f)
	for i, n := range []int{0, 1, 100, blockSize, 5*blockSize + 3} {
		require.NoError(t, w.WriteRecord(make([]byte, n)))
		require.Equal(t, i+1, f.writes)
		require.Equal(t, int64(f.Len()), w.Size())
	}
}

func TestPartsWriteTheSameLogAsTheirConcatenation(t *testing.T) {
	rnd := newRand(t)
	whole, parted := newMemFile(), newMemFile()
	a, b := NewWriter(whole), NewWriter(parted)
	for range 200 {
		var parts [][]byte
		for range rnd.Intn(5) {
			parts = append(parts, random(rnd, rnd.Intn(1+rnd.Intn(40000))))
		}
		require.NoError(t, a.WriteRecord(bytes.Join(parts, nil)))
		require.NoError(t, b.WriteRecordParts(parts...))
		require.Equal(t, a.Size(), b.Size())
	}
	require.True(t, bytes.Equal(whole.Bytes(), parted.Bytes()))
}

func TestBufferedRecordsWriteTheSameLog(t *testing.T) {
	rnd := newRand(t)
	at, buffered := newMemFile(), newMemFile()
	a, b := NewWriter(at), NewWriter(buffered)
	for range 2000 {
		p := random(rnd, rnd.Intn(1+rnd.Intn(1+rnd.Intn(40000))))
		require.NoError(t, a.WriteRecord(p))
		switch rnd.Intn(40) {
		case 0:
			require.NoError(t, b.WriteRecord(p))
			require.Zero(t, b.Buffered())
		case 1:
			require.NoError(t, b.BufferRecord(p))
			require.NoError(t, b.Flush())
		default:
			require.NoError(t, b.BufferRecord(p))
		}
		require.Equal(t, a.Size(), b.Size())
		require.Equal(t, b.Size(), int64(buffered.Len()+b.Buffered()))
		require.Less(t, b.Buffered(), maxBuffered)
	}
	require.NoError(t, b.Close())
	require.True(t, bytes.Equal(at.Bytes(), buffered.Bytes()))
	require.Less(t, buffered.writes, at.writes/5)
}

func TestBufferedRecordsAreWrittenByTheNextCallThatWrites(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(w *Writer) error
		size int
	}{
		{"Flush", (*Writer).Flush, 12},
		{"Sync", (*Writer).Sync, 12},
		{"Close", (*Writer).Close, 12},
		{"a record that is not buffered", func(w *Writer) error { return w.WriteRecord([]byte("follow")) }, 25},
		{"a full buffer", func(w *Writer) error { return w.BufferRecord(make([]byte, maxBuffered)) },
			12 + maxBuffered + 3*headerSize},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newMemFile()
			w := NewWriter(f)
			require.NoError(t, w.BufferRecord([]byte("first")))
			require.Equal(t, []int{0, 12}, []int{f.writes, w.Buffered()})
			require.EqualValues(t, 12, w.Unsynced())
			require.NoError(t, c.do(w))
			require.Equal(t, []int{1, 0, c.size}, []int{f.writes, w.Buffered(), f.Len()})
		})
	}
}

func TestAFailureToWriteTheBufferIsFinal(t *testing.T) {
	eio := errors.New("input/output error")
	f := newMemFile()
	w := NewWriter(f)
	require.NoError(t, w.BufferRecord([]byte("first")))
	f.writeErr, f.short = eio, 3
	first := w.Sync()
	require.ErrorIs(t, first, eio)
	f.writeErr, f.short = nil, -1
	require.Same(t, first, w.BufferRecord([]byte("later")))
	require.Same(t, first, w.Flush())
	require.Same(t, first, w.Close())
	require.Equal(t, []int{1, 0, 3}, []int{f.writes, f.syncs, f.Len()})
}

func TestUnsyncedCountsBytesSinceTheLastSync(t *testing.T) {
	w := NewWriter(newMemFile())
	require.Zero(t, w.Unsynced())
	require.NoError(t, w.WriteRecord(make([]byte, 10)))
	require.Equal(t, int64(17), w.Unsynced())
	require.NoError(t, w.Sync())
	require.Zero(t, w.Unsynced())
	require.NoError(t, w.WriteRecord(nil))
	require.Equal(t, int64(7), w.Unsynced())
	require.Equal(t, int64(24), w.Size())
}

// LevelDB wrote valid records after a part of a record that a failed append had left, and recovery
// could not reach them.
func TestNothingIsAppendedAfterAFailedAppend(t *testing.T) {
	diskFull := errors.New("disk full")
	for _, c := range []struct {
		name  string
		short int
		err   error
		want  error
	}{
		{"an error and nothing written", 0, diskFull, diskFull},
		{"an error after one byte", 1, diskFull, diskFull},
		{"an error after half of it", 53, diskFull, diskFull},
		{"an error after all but one byte", 106, diskFull, diskFull},
		{"an error although all was written", 107, diskFull, diskFull},
		{"a short write without an error", 50, nil, io.ErrShortWrite},
		{"no write without an error", 0, nil, io.ErrShortWrite},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newMemFile()
			w := NewWriter(f)
			require.NoError(t, w.WriteRecord([]byte("first")))
			f.short, f.writeErr = c.short, c.err
			first := w.WriteRecord(make([]byte, 100))
			require.ErrorIs(t, first, c.want)
			require.Equal(t, int64(12+c.short), w.Size())

			f.short, f.writeErr = -1, nil
			for range 3 {
				require.Same(t, first, w.WriteRecord([]byte("later")))
				require.Same(t, first, w.Sync())
			}
			require.Equal(t, 2, f.writes)
			require.Zero(t, f.syncs)
			require.Same(t, first, w.Close())
			require.Equal(t, 1, f.closes)
		})
	}
}

// After a failed fsync, the kernel may mark lost pages as clean, and the next fsync succeeds without them.
func TestAFailedSyncIsNotRetried(t *testing.T) {
	eio := errors.New("input/output error")
	f := newMemFile()
	w := NewWriter(f)
	require.NoError(t, w.WriteRecord([]byte("first")))
	f.syncErr = eio
	first := w.Sync()
	require.ErrorIs(t, first, eio)
	f.syncErr = nil
	require.Same(t, first, w.Sync())
	require.Same(t, first, w.WriteRecord(nil))
	require.Equal(t, 1, f.syncs)
	require.Equal(t, 1, f.writes)
	require.Equal(t, int64(12), w.Unsynced())
	require.Same(t, first, w.Close())
}

func TestCloseClosesOnceAndDoesNotSync(t *testing.T) {
	f := newMemFile()
	w := NewWriter(f)
	require.NoError(t, w.WriteRecord([]byte("x")))
	require.NoError(t, w.Close())
	require.NoError(t, w.Close())
	require.Equal(t, 1, f.closes)
	require.Zero(t, f.syncs)
	require.ErrorIs(t, w.WriteRecord(nil), errWriterClosed)
	require.ErrorIs(t, w.Sync(), errWriterClosed)
	require.Equal(t, 1, f.writes)
}

func TestAFailedCloseIsReported(t *testing.T) {
	eio := errors.New("input/output error")
	f := newMemFile()
	f.closErr = eio
	w := NewWriter(f)
	require.ErrorIs(t, w.Close(), eio)
	require.ErrorIs(t, w.Close(), eio)
	require.ErrorIs(t, w.WriteRecord(nil), eio)
	require.Equal(t, 1, f.closes)
}

func TestATooLongRecordIsRefusedAndTheLogStaysUsable(t *testing.T) {
	f := newMemFile()
	w := NewWriter(f)
	piece := make([]byte, 1<<20)
	parts := make([][]byte, MaxRecordSize>>20+1)
	for i := range parts {
		parts[i] = piece
	}
	require.ErrorContains(t, w.WriteRecordParts(parts...), "longer than the limit")
	require.Zero(t, f.writes)
	require.NoError(t, w.WriteRecord([]byte("x")))
}

// discard is a File that keeps nothing.
type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }
func (discard) Sync() error                 { return nil }
func (discard) Close() error                { return nil }

func TestWritingAllocatesNothing(t *testing.T) {
	race.SkipAllocations(t)
	w := NewWriter(discard{})
	record, big := make([]byte, 130), make([]byte, 3*blockSize)
	parts := [][]byte{record[:12], record, nil, record}
	require.NoError(t, w.WriteRecord(big))
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		if w.WriteRecord(record) != nil || w.WriteRecordParts(parts...) != nil ||
			w.WriteRecord(big) != nil || w.Sync() != nil {
			panic("a discarding file failed")
		}
	}))
}

func TestTheBufferOfAHugeRecordIsNotKept(t *testing.T) {
	w := NewWriter(discard{})
	require.NoError(t, w.WriteRecord(make([]byte, 2*maxKeptBuffer)))
	require.LessOrEqual(t, cap(w.buf), maxKeptBuffer)
}

func BenchmarkWriteRecord(b *testing.B) {
	for _, size := range []int{130, 4 << 10, 128 << 10} {
		b.Run(fmt.Sprintf("size=%d", size), func(b *testing.B) {
			w, p := NewWriter(discard{}), make([]byte, size)
			b.ReportAllocs()
			b.SetBytes(int64(size))
			for b.Loop() {
				if err := w.WriteRecord(p); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// panickingFile panics in StartWriting.
type panickingFile struct{ File }

func (panickingFile) StartWriting(int64, int64) { panic("boom") }

// The panic happened in a goroutine of the Writer and ended the process.
func TestAPanicOfStartWritingIsAnErrorOfSync(t *testing.T) {
	w := NewWriter(panickingFile{newMemFile()})
	require.NoError(t, w.WriteRecord(make([]byte, earlyBytes)))
	w.beginners.Wait()
	require.ErrorContains(t, w.Sync(), "panicked")
	require.Error(t, w.WriteRecord(nil), "the failure is final")
	require.Error(t, w.Close())
}
