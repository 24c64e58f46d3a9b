package wal

import (
	"bytes"
	"fmt"
	"io"
	"math/rand"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/test/race"
	"github.com/sievedb/sievedb/util"
)

// sequenced returns a stand-in for a batch: a sequence number, then any bytes.
func sequenced(seq uint64, rest []byte) []byte {
	return append(util.AppendFixed64(nil, seq), rest...)
}

// from accepts records with sequence numbers from want on, as a replay does.
func from(want uint64) func([]byte, int64) bool {
	return func(p []byte, lost int64) bool {
		return len(p) >= 8 && util.Fixed64(p) >= want && util.Fixed64(p)-want <= uint64(lost)
	}
}

func TestACopiedLogInATornRecordIsNotALaterRecord(t *testing.T) {
	rnd := newRand(t)
	older, _ := encode(t, sequenced(1, random(rnd, 50)), sequenced(2, random(rnd, 50)))
	foreign, _ := encode(t, sequenced(1<<40, random(rnd, 50)))
	value := append(append(random(rnd, 20), older...), foreign...)
	log, ends := encode(t, sequenced(3, random(rnd, 100)), sequenced(4, append(value, random(rnd, 100)...)))

	torn := log[:len(log)-50]
	r := open(torn, ReaderOptions{Last: true, Plausible: from(4)})
	_, err := readAll(r)
	require.Same(t, io.EOF, err)
	require.Equal(t, TailTorn, r.Tail().Kind)
	require.Equal(t, ends[0], r.Tail().Offset)

	_, err = readAll(open(torn, ReaderOptions{Last: true}))
	requireCorruption(t, err, ends[0], "without Plausible, any valid record counts")
}

func TestLookAheadFindsTheRecordAfterACopiedLog(t *testing.T) {
	rnd := newRand(t)
	older, _ := encode(t, sequenced(1, random(rnd, 50)))
	log, ends := encode(t, sequenced(3, append(older, random(rnd, 40)...)), sequenced(4, nil))
	log[9] ^= 0xff
	log[30] ^= 0xff
	r := open(log, ReaderOptions{Last: true, Plausible: from(3)})
	_, err := readAll(r)
	requireCorruption(t, err, 0)
	require.Equal(t, ends[0], r.Tail().Resume)
}

func TestPlausibleReceivesTheNumberOfLostBytes(t *testing.T) {
	log, ends := encode(t, []byte("one"), []byte("two"), []byte("three"), []byte("four"))
	log[ends[0]+headerSize] ^= 0xff
	var calls []string
	r := open(log, ReaderOptions{Last: true, Plausible: func(p []byte, lost int64) bool {
		calls = append(calls, fmt.Sprintf("%s after %d", p, lost))
		return string(p) == "four"
	}})
	_, err := readAll(r)
	requireCorruption(t, err, ends[0])
	require.Equal(t, []string{"three after 10", "four after 22"}, calls)
	require.Equal(t, ends[2], r.Tail().Resume)
}

// Stale disk blocks after a cut contain valid chunks of an older log.
func TestStaleRecordsAfterACutAreATornTail(t *testing.T) {
	rnd := newRand(t)
	log, ends := encode(t, sequenced(1000, nil), sequenced(1001, random(rnd, 400)))
	var stale [][]byte
	for seq := range uint64(300) {
		stale = append(stale, sequenced(seq, random(rnd, 700)))
	}
	old, _ := encode(t, stale...)
	copy(old, log[:256])
	for _, front := range []int{256, 257} {
		old[256] = log[front]
		r := open(old, ReaderOptions{Last: true, Plausible: from(1001)})
		got, err := readAll(r)
		require.Same(t, io.EOF, err)
		require.Len(t, got, 1)
		require.Equal(t, TailTorn, r.Tail().Kind)
		require.Equal(t, int64(len(old))-ends[0], r.Tail().Dropped)
	}
}

// One chunk of a record of many blocks is damaged. Its valid chunks are skipped, and the next record
// is found, although it too has many chunks.
func TestDamageInEachChunkOfALongRecord(t *testing.T) {
	rnd := newRand(t)
	records := [][]byte{random(rnd, 1000), random(rnd, 4*blockSize), random(rnd, 2*blockSize), random(rnd, 10)}
	log, ends := encode(t, records...)
	for at := ends[0]; at < ends[1]; at = blockEnd(at) {
		for _, hit := range []int64{0, 4, 6, headerSize + 5} {
			damaged := bytes.Clone(log)
			damaged[at+hit] ^= 0xa5
			r := open(damaged, ReaderOptions{Last: true})
			_, err := readAll(r)
			requireCorruption(t, err, ends[0])
			require.Equal(t, ends[1], r.Tail().Resume)
			require.True(t, r.Skip())
			rest, err := readAll(r)
			require.Same(t, io.EOF, err)
			requireRecords(t, records[2:], rest)

			// If the damaged record is the last of the log, the log is torn.
			r = open(damaged[:ends[1]], ReaderOptions{Last: true})
			got, err := readAll(r)
			require.Same(t, io.EOF, err)
			require.Len(t, got, 1)
			require.Equal(t, ends[1]-ends[0], r.Tail().Dropped)
		}
	}
}

func TestDamageInTwoBlocksDoesNotHideTheThird(t *testing.T) {
	rnd := newRand(t)
	var records [][]byte
	for range 4 {
		records = append(records, random(rnd, blockSize-headerSize))
	}
	records = append(records, []byte("later"))
	log, ends := encode(t, records...)
	for _, block := range []int{1, 2, 3} {
		copy(log[block*blockSize+1000:], random(rnd, 600))
	}
	r := open(log, ReaderOptions{Last: true})
	_, err := readAll(r)
	requireCorruption(t, err, ends[0])
	require.Equal(t, ends[3], r.Tail().Resume)
}

// hostileLog returns a log that makes a look-ahead as expensive as possible: every third byte begins
// a header with a valid kind and length, up to far into each block.
func hostileLog(size int) []byte {
	log := bytes.Repeat([]byte{0xfe, 0x3f, 1}, size/3+1)[:size]
	for off := 0; off+64 < len(log); off += blockSize {
		copy(log[off+40:], appendChunk(nil, kindFull, []byte("bait")))
	}
	return log
}

// countingReader counts the bytes that are read from a log.
type countingReader struct {
	io.ReaderAt
	n int64
}

func (c *countingReader) ReadAt(p []byte, off int64) (int, error) {
	n, err := c.ReaderAt.ReadAt(p, off)
	c.n += int64(n)
	return n, err
}

func TestAHostileLogIsReadOnce(t *testing.T) {
	log := hostileLog(8 << 20)
	never := func([]byte, int64) bool { return false }
	src := &countingReader{ReaderAt: bytes.NewReader(log)}
	r := NewReader(src, int64(len(log)), ReaderOptions{Last: true, Plausible: never})
	_, err := readAll(r)
	require.Same(t, io.EOF, err)
	require.Equal(t, TailTorn, r.Tail().Kind)
	require.LessOrEqual(t, src.n, int64(len(log)+2*blockSize))

	src.n = 0
	r = NewReader(src, int64(len(log)), ReaderOptions{Last: true})
	salvaged := 0
	for {
		if got, err := readAll(r); err != nil && !r.Skip() {
			salvaged += len(got)
			break
		} else {
			salvaged += len(got)
		}
	}
	require.Equal(t, len(log)/blockSize, salvaged)
	require.LessOrEqual(t, src.n, int64(4*len(log)))
}

func BenchmarkLookAhead(b *testing.B) {
	rnd := newRand(b)
	for _, c := range []struct {
		name string
		log  []byte
	}{
		{"hostile", hostileLog(64 << 20)},
		{"zeros-then-one", append(make([]byte, 64<<20), 1)},
		{"random", func() []byte { p := make([]byte, 64<<20); rnd.Read(p); return p }()},
	} {
		b.Run("log="+c.name+"/size=64MiB", func(b *testing.B) {
			b.SetBytes(int64(len(c.log)))
			for b.Loop() {
				r := open(c.log, ReaderOptions{Last: true, Plausible: func([]byte, int64) bool { return false }})
				if _, err := r.Next(); err != io.EOF {
					b.Fatal(err)
				}
			}
		})
	}
}

// smallLog has records around the end of a block, an empty one, and one full of zeros, in which a
// flipped bit must not pass for a hole.
func smallLog(t testing.TB, rnd *rand.Rand) (records [][]byte, log []byte, ends []int64) {
	records = [][]byte{
		random(rnd, 40), {}, make([]byte, 1700), random(rnd, 300), random(rnd, blockSize-2000),
		random(rnd, 90), make([]byte, 600), random(rnd, 20),
	}
	log, ends = encode(t, records...)
	return records, log, ends
}

// wholeBefore counts the records that end at or before cut.
func wholeBefore(ends []int64, cut int) (n int) {
	for n < len(ends) && ends[n] <= int64(cut) {
		n++
	}
	return n
}

func TestTruncatedLogsReturnTheirCompleteRecords(t *testing.T) {
	race.SkipInShort(t)
	rnd := newRand(t)
	small := [][]byte{random(rnd, 40), {}, make([]byte, 700), random(rnd, 300), {}, random(rnd, 1), random(rnd, 600)}
	log, ends := encode(t, small...)
	for cut := range log {
		checkCut(t, small, log, ends, cut)
	}

	// A log of two blocks: every cut near the end of a block or record, and some between.
	records, log, ends := smallLog(t, rnd)
	for cut := range log {
		near := cut%blockSize < 20 || cut%blockSize > blockSize-20 || cut%61 == 0
		for _, end := range ends {
			near = near || max(int64(cut)-end, end-int64(cut)) < 20
		}
		if near {
			checkCut(t, records, log, ends, cut)
		}
	}
}

// checkCut reads the first cut bytes of log in every mode.
func checkCut(t *testing.T, records [][]byte, log []byte, ends []int64, cut int) {
	n := wholeBefore(ends, cut)
	end := int64(0)
	if n > 0 {
		end = ends[n-1]
	}
	atBorder := int64(cut) == end || int64(cut) <= skipTrailer(end)
	want := Tail{Kind: TailTorn, Offset: end, Dropped: int64(usedLen(log[end:cut])), Resume: -1}
	if atBorder || allZero(log[skipTrailer(end):cut]) { // a checksum may begin with zeros
		want.Kind, want.Dropped = TailClean, 0
	}
	for _, o := range []ReaderOptions{{Last: true}, {AllowTornEnd: true}, {}} {
		r := open(log[:cut], o)
		got, err := readAll(r)
		requireRecords(t, records[:n], got, "cut at %d", cut)
		if o.Last || o.AllowTornEnd || atBorder {
			require.Same(t, io.EOF, err, "cut at %d", cut)
		} else {
			requireCorruption(t, err, skipTrailer(end), "cut at %d", cut)
		}
		tail := r.Tail()
		tail.Reason = ""
		require.Equal(t, want, tail, "cut at %d", cut)
		require.False(t, r.Skip())
	}
}

// A record that is cut at a sector and followed by zeros is what a crash leaves if the size of the
// file was written before its data.
func TestTruncatedLogsFilledWithZerosAreAccepted(t *testing.T) {
	race.SkipInShort(t)
	records, log, ends := smallLog(t, newRand(t))
	for cut := 0; cut < len(log); cut += sectorSize {
		for _, zeros := range []int{1, 6, 7, 100, sectorSize, blockSize, 3*blockSize + 5} {
			filled := append(bytes.Clone(log[:cut]), make([]byte, zeros)...)
			for _, o := range []ReaderOptions{{Last: true}, {AllowTornEnd: true}} {
				r := open(filled, o)
				got, err := readAll(r)
				if o.AllowTornEnd && r.Tail().BitFlip { // by chance, of the bits of 30 KB once in 17,000 times
					requireCorruption(t, err, r.Tail().Offset, "cut at %d, %d zeros", cut, zeros)
					continue
				}
				require.Same(t, io.EOF, err, "cut at %d, %d zeros", cut, zeros)
				n := wholeBefore(ends, cut)
				require.GreaterOrEqual(t, len(got), n) // one more if the lost bytes were zeros
				requireRecords(t, records[:len(got)], got)
			}
		}
	}
}

func TestZerosAfterTheLastRecordAreReservedSpace(t *testing.T) {
	log, ends := encode(t, []byte("one"), []byte("two"))
	for _, zeros := range []int{1, 6, 7, 8, 4096, blockSize, 5*blockSize + 1} {
		filled := append(bytes.Clone(log), make([]byte, zeros)...)
		for _, o := range []ReaderOptions{{Last: true}, {AllowTornEnd: true}} {
			r := open(filled, o)
			got, err := readAll(r)
			require.Same(t, io.EOF, err)
			require.Len(t, got, 2)
			require.Equal(t, Tail{Offset: ends[1], Resume: -1}, r.Tail())
		}
		r := open(filled, ReaderOptions{})
		_, err := readAll(r)
		requireCorruption(t, err, ends[1])
		require.Equal(t, TailClean, r.Tail().Kind)
	}
}

// checkFlip reads log, in which one bit of record k is flipped. It requires that
//
//   - the records before k are returned, and no byte of k;
//   - if a record follows, the flip is corruption in every mode, and Skip leads to all records
//     after k;
//   - if k is the last record, a newest log ends before it with BitFlip set, and any other log is
//     corrupt.
func checkFlip(t *testing.T, records [][]byte, ends []int64, log []byte, bit int) {
	k := wholeBefore(ends, bit/8)
	begin := int64(0)
	if k > 0 {
		begin = skipTrailer(ends[k-1])
	}
	inTrailer := int64(bit/8) < begin
	for _, o := range []ReaderOptions{{Last: true}, {AllowTornEnd: true}, {}} {
		r := open(log, o)
		got, err := readAll(r)
		if inTrailer {
			require.Same(t, io.EOF, err, "bit %d", bit)
			requireRecords(t, records, got)
			continue
		}
		requireRecords(t, records[:k], got, "bit %d", bit)
		require.True(t, r.Tail().BitFlip, "bit %d", bit)
		if k == len(records)-1 {
			require.Equal(t, TailTorn, r.Tail().Kind, "bit %d", bit)
			if o.Last {
				require.Same(t, io.EOF, err, "bit %d", bit)
			} else {
				requireCorruption(t, err, begin, "bit %d", bit)
			}
			continue
		}
		requireCorruption(t, err, begin, "bit %d", bit)
		require.Equal(t, TailDamaged, r.Tail().Kind, "bit %d", bit)
		require.Equal(t, skipTrailer(ends[k]), r.Tail().Resume, "bit %d", bit)
		require.True(t, r.Skip())
		rest, err := readAll(r)
		require.Same(t, io.EOF, err)
		requireRecords(t, records[k+1:], rest, "bit %d", bit)
	}
}

//make:gates
func TestEveryFlippedBitIsDetected(t *testing.T) {
	race.SkipInShort(t)
	rnd := newRand(t)
	step := 1
	if testing.Short() {
		step = 7 // each bit of a byte in turn; the next test has all bits of headers
	}
	for _, c := range []struct {
		name  string
		sizes []int
	}{
		{"short records", []int{40, 0, 130, 7, 0, 90, 20, 0}},
		{"short records, the last one not empty", []int{0, 0, 40, 0, 17}},
		{"zeros of more than a sector", []int{30, -1100, 25, -40, 20}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var records [][]byte
			for _, n := range c.sizes {
				if n < 0 {
					records = append(records, make([]byte, -n))
				} else {
					records = append(records, random(rnd, n))
				}
			}
			log, ends := encode(t, records...)
			for bit := 0; bit < 8*len(log); bit += step {
				log[bit/8] ^= 1 << (bit % 8)
				checkFlip(t, records, ends, log, bit)
				log[bit/8] ^= 1 << (bit % 8)
			}
		})
	}
}

// LevelDB's paranoid mode treats a damaged length that points past the end of the file as a torn
// tail, and drops acknowledged records.
func TestFlippedBitsAreDetectedInALogOfSeveralBlocks(t *testing.T) {
	race.SkipInShort(t)
	rnd := newRand(t)
	records, log, ends := smallLog(t, rnd)
	var bits []int
	for i := range ends { // every bit of every record's header
		begin := int64(0)
		if i > 0 {
			begin = skipTrailer(ends[i-1])
		}
		for b := range 8 * headerSize {
			bits = append(bits, int(8*begin)+b)
		}
	}
	for b := range 8 * headerSize { // of the chunk that begins block 1
		bits = append(bits, 8*blockSize+b)
	}
	for b := range 8 * 12 { // around the end of block 0
		bits = append(bits, 8*(blockSize-6)+b)
	}
	for range 100 {
		bits = append(bits, rnd.Intn(8*len(log)))
	}
	for _, bit := range bits {
		log[bit/8] ^= 1 << (bit % 8)
		checkFlip(t, records, ends, log, bit)
		log[bit/8] ^= 1 << (bit % 8)
	}
}

func TestALostPageIsAHole(t *testing.T) {
	rnd := newRand(t)
	var records [][]byte
	for range 300 {
		records = append(records, random(rnd, 100+rnd.Intn(200)))
	}
	log, ends := encode(t, records...)
	const page = 4096
	for lost := 0; lost+2*page < len(log); lost += page {
		holed := bytes.Clone(log)
		clear(holed[lost : lost+page])
		n := wholeBefore(ends, lost)

		r := open(holed, ReaderOptions{Last: true})
		got, err := readAll(r)
		require.Same(t, io.EOF, err)
		requireRecords(t, records[:n], got)
		tail := r.Tail()
		require.Equal(t, TailHole, tail.Kind)
		require.Equal(t, int64(len(log))-tail.Offset, tail.Dropped)
		require.GreaterOrEqual(t, tail.Resume, int64(lost+page))
		require.Less(t, tail.Resume, int64(lost+page+1000))
		require.True(t, r.Skip())
		rest, err := readAll(r)
		require.Same(t, io.EOF, err)
		requireRecords(t, records[len(records)-len(rest):], rest)

		for _, o := range []ReaderOptions{{}, {AllowTornEnd: true}} {
			_, err = readAll(open(holed, o))
			requireCorruption(t, err, skipTrailer(tail.Offset))
		}
	}
}

// If only the front of a page was synced, a power cut can lose its remainder, which may be less than a sector.
func TestTheLostRemainderOfASyncedPageIsAHole(t *testing.T) {
	rnd := newRand(t)
	const page = 4096
	for rest := headerSize; rest < 600; rest += 13 {
		front, lost, later := random(rnd, page-rest-headerSize), random(rnd, rest+50), random(rnd, 30)
		log, ends := encode(t, front, lost, later)
		require.Equal(t, int64(page-rest), ends[0])
		clear(log[ends[0]:page])
		r := open(log, ReaderOptions{Last: true})
		got, err := readAll(r)
		require.Same(t, io.EOF, err, "the last %d bytes of the page", rest)
		requireRecords(t, [][]byte{front}, got)
		require.Equal(t, TailHole, r.Tail().Kind)
	}
}

func TestOverwrittenBytesAreDamageNotAHole(t *testing.T) {
	rnd := newRand(t)
	for _, c := range []struct {
		name     string
		from, to int
	}{
		{"zeros over the border of two sectors", 600, 1100},
		{"zeros of almost two sectors, none whole", 513, 1535 - sectorSize},
		{"a few zeros in a header", 1107, 1112},
	} {
		t.Run(c.name, func(t *testing.T) {
			log, ends := encode(t, random(rnd, 1100), random(rnd, 1000), random(rnd, 10))
			k := wholeBefore(ends, c.from)
			clear(log[c.from:c.to])
			r := open(log, ReaderOptions{Last: true})
			_, err := readAll(r)
			require.Equal(t, TailDamaged, r.Tail().Kind)
			require.Equal(t, ends[k], r.Tail().Resume)
			require.ErrorContains(t, err, fmt.Sprintf("a later record can be read at offset %d", ends[k]))
		})
	}
}

// The zeros of a value were written, so they are not a hole. Only its damaged chunk can be one.
func TestZerosInValidChunksAreNotAHole(t *testing.T) {
	rnd := newRand(t)
	first := blockSize - headerSize - 100 // leaves 93 bytes of the second record in block 0
	second := make([]byte, 3*blockSize)
	copy(second, random(rnd, 93))
	log, ends := encode(t, random(rnd, first), second, []byte("later"))
	copy(log[ends[0]+50:], "damage")
	r := open(log, ReaderOptions{Last: true})
	_, err := readAll(r)
	requireCorruption(t, err, ends[0])
	require.Equal(t, TailDamaged, r.Tail().Kind)
	require.Equal(t, ends[1], r.Tail().Resume)
}

func TestATornEndIsAcceptedOnlyIfItWasCut(t *testing.T) {
	rnd := newRand(t)
	log, ends := encode(t, random(rnd, 100), random(rnd, 3000))
	last := int(ends[0])
	for _, c := range []struct {
		name   string
		change func(log []byte) []byte
		ok     bool
	}{
		{"bytes are missing", func(b []byte) []byte { return b[:len(b)-1] }, true},
		{"all but the header is missing", func(b []byte) []byte { return b[:last+headerSize] }, true},
		{"the end is zeros from a sector on", func(b []byte) []byte { clear(b[1024:]); return b }, true},
		{"a sector within is zeros", func(b []byte) []byte { clear(b[1024:1536]); return b }, true},
		{"the last bytes, in a separate sector, are zeros", func(b []byte) []byte { clear(b[len(b)/512*512:]); return b }, true},
		{"the first bytes, up to their sector's end, are zeros", func(b []byte) []byte { clear(b[last:512]); return b }, true},
		{"a bit was flipped", func(b []byte) []byte { b[last+50] ^= 4; return b }, false},
		{"a flipped bit extends the length past the end", func(b []byte) []byte { b[last+5] ^= 4; return b }, false},
		{"bytes were changed", func(b []byte) []byte { b[last+50] ^= 0xff; b[last+700] ^= 0xff; return b }, false},
		{"zeros end inside a sector", func(b []byte) []byte { clear(b[last : last+100]); return b }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			changed := c.change(bytes.Clone(log))
			r := open(changed, ReaderOptions{AllowTornEnd: true})
			got, err := readAll(r)
			require.Len(t, got, 1)
			require.Equal(t, TailTorn, r.Tail().Kind)
			if c.ok {
				require.Same(t, io.EOF, err)
			} else {
				requireCorruption(t, err, ends[0])
			}
			_, err = readAll(open(changed, ReaderOptions{}))
			requireCorruption(t, err, ends[0])
			_, err = readAll(open(changed, ReaderOptions{Last: true}))
			require.Same(t, io.EOF, err)
		})
	}
}

func TestTailKindsHaveNames(t *testing.T) {
	require.Equal(t, "[clean torn hole damaged TailKind(9)]",
		fmt.Sprint([]TailKind{TailClean, TailTorn, TailHole, TailDamaged, 9}))
}
