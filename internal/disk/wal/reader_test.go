package wal

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/test/race"
	"github.com/sievedb/sievedb/internal/test/result"
)

func TestRandomRecordsRoundTrip(t *testing.T) {
	rnd := newRand(t)
	for range 50 {
		var records [][]byte
		for range 1 + rnd.Intn(20) {
			records = append(records, random(rnd, rnd.Intn(1+rnd.Intn(100_000))))
		}
		log, ends := encode(t, records...)
		r := open(log, ReaderOptions{})
		for i, want := range records {
			got := result.Of(r.Next())(t)
			require.True(t, bytes.Equal(want, got))
			begin := int64(0)
			if i > 0 {
				begin = min(skipTrailer(ends[i-1]), ends[i])
			}
			require.Equal(t, begin, r.Offset())
		}
		_, err := r.Next()
		require.Same(t, io.EOF, err)
		require.Equal(t, TailClean, r.Tail().Kind)
	}
}

func TestRecordsThatEndNearABlockBoundary(t *testing.T) {
	rnd := newRand(t)
	for blocks := range 3 {
		for d := -20; d <= 20; d++ {
			n := (blocks+1)*blockSize - headerSize + d
			records := [][]byte{random(rnd, n), random(rnd, 3), {}, random(rnd, blockSize), {}}
			log, ends := encode(t, records...)
			for _, size := range []int{len(log), int(ends[0])} { // the trailer may be missing
				got, err := readAll(open(log[:size], ReaderOptions{}))
				require.Same(t, io.EOF, err)
				want := records
				if size < len(log) {
					want = records[:1]
				}
				requireRecords(t, want, got, "record of %d bytes, log of %d", n, size)
			}
		}
	}
}

func TestAnEmptyLogIsClean(t *testing.T) {
	r := open(nil, ReaderOptions{})
	_, err := r.Next()
	require.Same(t, io.EOF, err)
	require.Equal(t, Tail{Resume: -1}, r.Tail())
	require.False(t, r.Skip())
}

// Early versions of LevelDB left an empty first chunk at the end of a block and began the record
// again in the next block.
func TestAnEmptyFirstChunkAtTheEndOfABlockIsSkipped(t *testing.T) {
	begin := bytes.Repeat([]byte{'a'}, blockSize-2*headerSize)
	log, _ := encode(t, begin)
	log = appendChunk(log, kindFirst, nil)
	for _, rest := range [][]byte{[]byte("b"), bytes.Repeat([]byte{'b'}, 2*blockSize)} {
		again, _ := encode(t, rest)
		got, err := readAll(open(append(bytes.Clone(log), again...), ReaderOptions{}))
		require.Same(t, io.EOF, err)
		requireRecords(t, [][]byte{begin, rest}, got)
	}
}

// appendChunk appends a valid chunk, even at the wrong position.
func appendChunk(log []byte, kind byte, payload []byte) []byte {
	head := len(log)
	log = append(appendChunkHeader(log, len(payload), kind), payload...)
	sealChunk(log[head:])
	return log
}

func TestChunksOutOfOrderAreCorruption(t *testing.T) {
	full := func(log []byte) []byte { return appendChunk(log, kindFull, []byte("later")) }
	for _, c := range []struct {
		name  string
		kinds []byte
		at    int64 // offset of the error from the end of the first record
		why   string
	}{
		{"a middle chunk begins a record", []byte{kindMiddle}, 0, "did not begin"},
		{"a last chunk begins a record", []byte{kindLast}, 0, "did not begin"},
		{"a first chunk inside a record", []byte{kindFirst, kindFirst, kindLast}, 0, "before the previous one has ended"},
		{"a full chunk inside a record", []byte{kindFirst, kindMiddle, kindFull}, 0, "before the previous one has ended"},
		{"a record has ended and continues", []byte{kindFirst, kindLast, kindLast}, 16, "did not begin"},
	} {
		t.Run(c.name, func(t *testing.T) {
			log := appendChunk(nil, kindFull, []byte("good"))
			for _, kind := range c.kinds {
				log = appendChunk(log, kind, []byte("x"))
			}
			r := open(full(log), ReaderOptions{Last: true})
			_, err := r.Next()
			require.NoError(t, err)
			for {
				if _, err = r.Next(); err != nil {
					break
				}
			}
			requireCorruption(t, err, 11+c.at)
			require.ErrorContains(t, err, c.why)
			_, again := r.Next()
			require.Same(t, err, again)

			require.True(t, r.Skip())
			rest, err := readAll(r)
			require.Same(t, io.EOF, err)
			require.Equal(t, "later", string(rest[len(rest)-1]))
		})
	}
}

// The buffer of an unfinished record became part of the next one.
func TestChunksOfALostRecordAreNotMixedIntoTheNextRecord(t *testing.T) {
	log := appendChunk(nil, kindFirst, []byte("lost "))
	log = appendChunk(log, kindMiddle, []byte("lost "))
	log = appendChunk(log, kindFirst, []byte("kept "))
	log = appendChunk(log, kindMiddle, []byte("kept "))
	log = appendChunk(log, kindLast, []byte("kept"))
	log = appendChunk(log, kindLast, []byte(" orphan"))
	log = appendChunk(log, kindFull, []byte("full"))

	r := open(log, ReaderOptions{Last: true})
	_, err := r.Next()
	requireCorruption(t, err, 0)
	require.True(t, r.Skip())
	p := result.Of(r.Next())(t)
	require.Equal(t, "kept kept kept", string(p))
	require.Error(t, result.Err(r.Next()))
	require.True(t, r.Skip())
	require.False(t, r.Skip(), "nothing is left to skip")
	p = result.Of(r.Next())(t)
	require.Equal(t, "full", string(p))
	_, err = r.Next()
	require.Same(t, io.EOF, err)
}

func TestHostileHeadersAreFaults(t *testing.T) {
	for _, c := range []struct {
		name   string
		header []byte
		why    string
	}{
		{"kind 0 with a length", []byte{1, 2, 3, 4, 5, 0, 0}, "kind 0 is unknown"},
		{"kind 5", []byte{1, 2, 3, 4, 5, 0, 5}, "kind 5 is unknown"},
		{"kind 255", []byte{1, 2, 3, 4, 5, 0, 255}, "kind 255 is unknown"},
		{"a length that extends past the block", []byte{1, 2, 3, 4, 0xff, 0xff, 1}, "past the end of its block"},
		{"a length one byte too long for a block", []byte{1, 2, 3, 4, 0xfa, 0x7f, 1}, "past the end of its block"},
		{"a length that extends past the log", []byte{1, 2, 3, 4, 0xf9, 0x7f, 1}, "past the end of the log"},
		{"a wrong checksum", []byte{1, 2, 3, 4, 3, 0, 1, 7, 7, 7}, "checksum of a chunk of 3 bytes"},
		{"a header without its last byte", []byte{1, 2, 3, 4, 5, 0}, "6 bytes are left"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := open(c.header, ReaderOptions{})
			_, err := r.Next()
			requireCorruption(t, err, 0)
			require.ErrorContains(t, err, c.why)
			require.Equal(t, TailTorn, r.Tail().Kind)
			require.Contains(t, r.Tail().Reason, c.why)

			r = open(c.header, ReaderOptions{Last: true})
			_, err = r.Next()
			require.Same(t, io.EOF, err)
			require.Equal(t, int64(usedLen(c.header)), r.Tail().Dropped)
		})
	}
}

func TestARecordAboveTheLimitIsCorruptionEvenInTheNewestLog(t *testing.T) {
	for _, n := range []int{101, 3 * blockSize} {
		log, ends := encode(t, make([]byte, 100), make([]byte, n), []byte("x"))
		r := open(log, ReaderOptions{Last: true, MaxRecord: 100})
		require.NoError(t, result.Err(r.Next()))
		_, err := r.Next()
		requireCorruption(t, err, ends[0])
		require.ErrorContains(t, err, "longer than the limit of 100 bytes")
		require.True(t, r.Skip())
		require.Equal(t, "x", string(result.Of(r.Next())(t)))

		r = open(log[:ends[1]], ReaderOptions{Last: true, MaxRecord: 100})
		_, err = readAll(r)
		requireCorruption(t, err, ends[0])
		require.Equal(t, TailDamaged, r.Tail().Kind)
		require.False(t, r.Skip())
	}
}

// LevelDB treats a short read as the end of the log.
func TestShortReadsAreNotTheEnd(t *testing.T) {
	rnd := newRand(t)
	records := [][]byte{random(rnd, 10), random(rnd, 2*blockSize), random(rnd, 500)}
	log, _ := encode(t, records...)
	src := bytes.NewReader(log)
	for _, limit := range []int{1, 7, 511, 4096} {
		calls := 0
		r := NewReader(readerAt(func(p []byte, off int64) (int, error) {
			if calls++; calls%3 == 0 {
				return 0, nil
			}
			n, err := src.ReadAt(p[:min(limit, len(p))], off)
			if err == io.EOF && n > 0 {
				err = nil
			}
			return n, err
		}), int64(len(log)), ReaderOptions{})
		got, err := readAll(r)
		require.Same(t, io.EOF, err)
		requireRecords(t, records, got)
	}
}

func TestReadErrorsAreReturnedUnchanged(t *testing.T) {
	rnd := newRand(t)
	var records [][]byte
	for range 40 {
		records = append(records, random(rnd, 5000))
	}
	log, ends := encode(t, records...)
	twice := bytes.Clone(log)
	twice[ends[9]+headerSize+100] ^= 0x55
	twice[ends[9]+headerSize+900] ^= 0x55
	zeros := append(bytes.Clone(log), make([]byte, 3*blockSize)...)
	bit := bytes.Clone(log)
	bit[ends[9]+headerSize+900] ^= 1
	for _, c := range []struct {
		name    string
		log     []byte
		records int
		reads   int // minimum number of reads until the end is judged
	}{
		{"damage: the records after it are read as well", twice, 10, 2},
		{"a flipped bit", bit, 10, 2},
		{"a hole, and records after it", append(bytes.Clone(zeros), log[:6000]...), 40, 8},
		{"zeros to the end", zeros, 40, 9},
	} {
		t.Run(c.name, func(t *testing.T) {
			never := func([]byte, int64) bool { return false }
			for _, o := range []ReaderOptions{{}, {Last: true}, {AllowTornEnd: true}, {Last: true, Plausible: never}} {
				requireReadErrors(t, c.log, records[:c.records], c.reads, o)
			}
		})
	}
}

// requireReadErrors reads the log once for each of its reads, which fails. The error must be
// returned, although the next read would succeed, and must not pass for the end of the log.
func requireReadErrors(t *testing.T, log []byte, records [][]byte, reads int, o ReaderOptions) {
	src := bytes.NewReader(log)
	eio := errors.New("input/output error")
	clean := false
	for failing := 0; !clean; failing++ {
		calls := 0
		r := NewReader(readerAt(func(p []byte, off int64) (int, error) {
			if calls++; calls == failing+1 {
				return 0, eio
			}
			return src.ReadAt(p, off)
		}), int64(len(log)), o)
		got, err := readAll(r)
		requireRecords(t, records[:len(got)], got)
		if clean = calls <= failing; clean {
			require.Len(t, got, len(records))
			require.GreaterOrEqual(t, failing, reads)
			continue
		}
		require.Same(t, eio, err)
		_, again := r.Next()
		require.Same(t, eio, again)
		require.False(t, r.Skip())
	}
}

func TestAFileShorterThanItsSizeIsAnError(t *testing.T) {
	log, _ := encode(t, []byte("record"))
	for _, src := range []io.ReaderAt{bytes.NewReader(log), bytes.NewReader(nil)} {
		_, err := readAll(NewReader(src, int64(len(log))+1, ReaderOptions{Last: true}))
		require.Same(t, io.ErrUnexpectedEOF, err)
	}
}

func TestReadsWithoutProgressAreAnError(t *testing.T) {
	next := func(read readerAt) error {
		_, err := NewReader(read, 10, ReaderOptions{}).Next()
		return err
	}
	require.Same(t, io.ErrNoProgress, next(func([]byte, int64) (int, error) { return 0, nil }))
	err := next(func(p []byte, _ int64) (int, error) { return len(p) + 1, nil })
	require.ErrorContains(t, err, "returned 11 bytes")
	require.Same(t, iotest.ErrTimeout, next(func([]byte, int64) (int, error) { return 0, iotest.ErrTimeout }))
}

func TestReadingAllocatesNothingPerRecord(t *testing.T) {
	race.SkipAllocations(t)
	var records [][]byte
	for range 20_000 {
		records = append(records, make([]byte, 130))
	}
	log, _ := encode(t, records...)
	src := bytes.NewReader(log)
	allocs := testing.AllocsPerRun(3, func() {
		r := NewReader(src, int64(len(log)), ReaderOptions{})
		for {
			if _, err := r.Next(); err != nil {
				break
			}
		}
	})
	require.LessOrEqual(t, allocs, 60.0) // records in several blocks share a buffer
}

func BenchmarkNext(b *testing.B) {
	for _, size := range []int{130, 4 << 10, 128 << 10} {
		b.Run(fmt.Sprintf("size=%d", size), func(b *testing.B) {
			var records [][]byte
			for n := 0; n < 4<<20; n += size {
				records = append(records, make([]byte, size))
			}
			log, _ := encode(b, records...)
			r := open(log, ReaderOptions{})
			b.ReportAllocs()
			b.SetBytes(int64(size))
			for b.Loop() {
				if _, err := r.Next(); err == io.EOF {
					r = open(log, ReaderOptions{})
				} else if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// A chunk of a later version was taken for the torn end of the log, so that Open dropped it and all records after it.
func TestAChunkOfAnUnknownKindIsNewer(t *testing.T) {
	one, ends := encode(t, []byte("one"))
	for _, kind := range []byte{kindLast + 1, 127, 255} {
		later := append([]byte(nil), one...)
		chunk := append(appendChunkHeader(nil, 3, kind), "two"...)
		sealChunk(chunk)
		later = append(later, chunk...)
		three, _ := encode(t, []byte("three"))
		for _, o := range []ReaderOptions{{Last: true}, {}, {AllowTornEnd: true}} {
			for _, log := range [][]byte{later, append(append([]byte(nil), later...), three...)} {
				r := open(log, o)
				got, err := readAll(r)
				require.Len(t, got, 1)
				var n *base.NewerError
				require.ErrorAs(t, err, &n)
				require.Equal(t, ends[0], n.Offset)
				require.NotErrorIs(t, err, base.ErrCorruption)
				require.Equal(t, TailNewer, r.Tail().Kind)
				require.Equal(t, "newer", r.Tail().Kind.String())
				require.False(t, r.Skip())
			}
		}
		// Without its checksum, or without its end, it is the torn end of a log.
		for _, cut := range [][]byte{later[:len(later)-1], append(append([]byte(nil), later[:len(later)-1]...), 'x')} {
			r := open(cut, ReaderOptions{Last: true})
			_, err := readAll(r)
			require.EqualError(t, err, "EOF")
			require.Equal(t, TailTorn, r.Tail().Kind)
		}
	}
}

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
	record := result.Of(r.Next())(t)
	require.Equal(t, "firstlast", string(record))
	require.True(t, r.Split())
	require.Zero(t, r.Offset())
	for _, want := range records {
		record := result.Of(r.Next())(t)
		require.True(t, bytes.Equal(want, record))
		require.False(t, r.Split())
	}
	_, err := r.Next()
	require.Equal(t, io.EOF, err)
	require.Panics(t, func() { _ = w.BufferSplit([]byte("first"), []byte("last")) })
}
