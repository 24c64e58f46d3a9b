package wal

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/test/race"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/util"
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

func TestSumsReturnTheChecksumOfEveryPiece(t *testing.T) {
	rnd := newRand(t)
	data := make([]byte, blockSize)
	rnd.Read(data)
	var s sums
	s.make(data)
	require.True(t, s.made())
	for range 2000 {
		i := rnd.Intn(len(data) + 1)
		j := i + rnd.Intn(len(data)+1-i)
		require.Equal(t, util.CRC32C(data[i:j]), s.crc(i, j), "bytes %d to %d", i, j)
	}
	require.Equal(t, util.CRC32C(data), s.crc(0, len(data)))
	require.Equal(t, util.CRC32C(nil), s.crc(5, 5))
	s.make(data[:3])
	require.Equal(t, util.CRC32C(data[1:3]), s.crc(1, 3))
}

func TestTheFlippedBitIsFound(t *testing.T) {
	rnd := newRand(t)
	for _, n := range []int{0, 1, 2, 100, 1000} {
		for kind := byte(kindFull); kind <= kindLast; kind++ {
			chunk := appendChunk(nil, kind, random(rnd, n))
			b := append(chunk, random(rnd, 600)...) // what follows in the block
			require.Equal(t, -1, flippedBit(b))
			for bit := range 8 * len(chunk) {
				b[bit/8] ^= 1 << (bit % 8)
				require.Equal(t, bit/8, flippedBit(b), "bit %d of a chunk of %d bytes", bit, n)
				b[bit/8] ^= 1 << (bit % 8)
			}
		}
	}
}

func TestNoFlippedBitIsFoundInUnrelatedBytes(t *testing.T) {
	rnd := newRand(t)
	chunk := appendChunk(nil, kindFull, random(rnd, 500))
	require.Equal(t, -1, flippedBit(chunk[:headerSize-1]))
	require.Equal(t, -1, flippedBit(chunk[:200]), "cut short")
	require.Equal(t, -1, flippedBit(make([]byte, 300)))
	for range 500 {
		b := append([]byte{}, chunk...)
		b[rnd.Intn(300)] ^= 1 << rnd.Intn(8)
		b[300+rnd.Intn(200)] ^= 1 << rnd.Intn(8)
		require.Equal(t, -1, flippedBit(b), "two bits")
	}
}

// earlyFile records the ranges passed to StartWriting.
type earlyFile struct {
	size   int64
	ranges [][2]int64 // from, to
}

func (f *earlyFile) Write(p []byte) (int, error) { f.size += int64(len(p)); return len(p), nil }
func (f *earlyFile) Sync() error                 { return nil }
func (f *earlyFile) Close() error                { return nil }
func (f *earlyFile) StartWriting(off, n int64)   { f.ranges = append(f.ranges, [2]int64{off, off + n}) }

func TestUnsyncedLogsAreWrittenToTheDeviceAsTheyGrow(t *testing.T) {
	f := &earlyFile{}
	w := NewWriter(f)
	record := make([]byte, 1000)
	var end int64
	for range 5000 {
		require.NoError(t, w.WriteRecord(record))
		w.beginners.Wait()
		if n := len(f.ranges); n > 0 {
			end = f.ranges[n-1][1]
		}
		require.Less(t, f.size-end, int64(earlyBytes+blockSize), "too many bytes have no early write")
	}
	require.Greater(t, len(f.ranges), 5)
	from := int64(0)
	for _, r := range f.ranges {
		require.Equal(t, from, r[0], "each range begins where the one before ended")
		require.Zero(t, r[1]%blockSize, "the last block may be written to again")
		from = r[1]
	}
}

func TestSyncedLogsNeedNoEarlyWriting(t *testing.T) {
	f := &earlyFile{}
	w := NewWriter(f)
	for range 1000 {
		require.NoError(t, w.WriteRecord(make([]byte, 5000)))
		require.NoError(t, w.Sync())
	}
	require.Empty(t, f.ranges)
	require.NoError(t, w.WriteRecord(make([]byte, 2*earlyBytes)))
	w.beginners.Wait()
	require.Len(t, f.ranges, 1)
	require.Less(t, f.size-f.ranges[0][1], int64(blockSize))
}

// slowFile is an earlyFile whose StartWriting blocks until the test lets it finish.
type slowFile struct {
	earlyFile
	begun, finish chan struct{}
	closed        bool // before StartWriting returned
}

func (f *slowFile) StartWriting(off, n int64) {
	f.begun <- struct{}{}
	<-f.finish
	f.earlyFile.StartWriting(off, n)
}

func (f *slowFile) Close() error { f.closed = len(f.ranges) == 0; return nil }

func TestAppendsDoNotWaitForABusyDevice(t *testing.T) {
	f := &slowFile{begun: make(chan struct{}, 1), finish: make(chan struct{})}
	w := NewWriter(f)
	record := make([]byte, earlyBytes)
	for range 5 {
		require.NoError(t, w.WriteRecord(record))
	}
	<-f.begun
	require.NoError(t, w.Sync(), "a sync does not wait either")
	closed := make(chan error)
	go func() { closed <- w.Close() }()
	f.finish <- struct{}{}
	require.NoError(t, <-closed)
	require.False(t, f.closed, "only Close waits")
	require.Equal(t, [][2]int64{{0, earlyBytes}}, f.ranges, "the sync has written the later records")
}

// failingFile is a slowFile whose Write fails after room bytes.
type failingFile struct {
	slowFile
	room   int
	writes int
	closes int
}

var errNoRoom = errors.New("no room")

func (f *failingFile) Write(p []byte) (int, error) {
	f.writes++
	n := min(len(p), f.room)
	f.room -= n
	if n < len(p) {
		return n, errNoRoom
	}
	return n, nil
}

func (f *failingFile) Close() error { f.closes++; return f.slowFile.Close() }

// An append fails while StartWriting is running. The failure is final as usual, and the file is
// closed only after StartWriting has returned.
func TestAFailedAppendDuringEarlyWritingIsFinal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := slowFile{begun: make(chan struct{}, 1), finish: make(chan struct{})}
		f := &failingFile{slowFile: slow, room: 2*earlyBytes + 100}
		w := NewWriter(f)
		record := make([]byte, earlyBytes)
		require.NoError(t, w.WriteRecord(record))
		<-f.begun
		err := w.WriteRecord(make([]byte, 2*earlyBytes))
		require.ErrorIs(t, err, errNoRoom)
		require.EqualValues(t, 2*earlyBytes+100, w.Size(), "the part in the file counts")
		require.Equal(t, err, w.BufferRecord([]byte("small")))
		require.Equal(t, err, w.WriteRecord(record))
		require.Equal(t, err, w.Flush())
		require.Equal(t, err, w.Sync())
		require.Equal(t, 2, f.writes)
		closed := make(chan error, 1)
		go func() { closed <- w.Close() }()
		synctest.Wait()
		if f.closes > 0 {
			t.Error("the file was closed before StartWriting returned")
		}
		close(f.finish)
		require.Equal(t, err, <-closed)
		require.Equal(t, err, w.Close())
		require.Equal(t, 1, f.closes)
		require.Len(t, f.ranges, 1)
	})
}

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
		require.NoError(t, result.Err(r.Next()))
	}
	for range 2 { // the first of them still uses the present buffer
		require.NoError(t, result.Err(r.Next()))
	}
	require.LessOrEqual(t, cap(r.asm.buf), maxKeptBuffer)
}
