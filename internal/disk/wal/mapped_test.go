package wal

import (
	"bytes"
	"fmt"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/test/result"
)

// unfinished returns log as a process leaves it that is killed while it appends p through memory: the space that was
// reserved is zeros, and body bytes of the record are there, but its first header is not.
func unfinished(t testing.TB, log, p []byte, body, reserved int) []byte {
	t.Helper()
	f := newMemFile()
	w := NewWriter(f)
	w.size = int64(len(log))
	require.NoError(t, w.WriteRecord(p))
	framed := f.Bytes()
	head := int(skipTrailer(int64(len(log)))) - len(log)
	clear(framed[head : head+headerSize])
	body = min(head+headerSize+body, len(framed))
	out := append(bytes.Clone(log), framed[:body]...)
	return append(out, make([]byte, max(0, reserved-len(out)))...)
}

// tails are ends of a log that is appended through memory, after whole records.
func mappedTails(t testing.TB, log []byte) map[string][]byte {
	rnd := newRand(t)
	copied, _ := encode(t, []byte("a copy of a record"))
	const reserved = 8 * blockSize
	inValue := append(append(random(rnd, 100), copied...), random(rnd, 100)...)
	return map[string][]byte{
		"zeros":                          append(bytes.Clone(log), make([]byte, reserved)...),
		"a short record":                 unfinished(t, log, random(rnd, 50), 50, reserved),
		"a part of a short record":       unfinished(t, log, random(rnd, 50), 20, reserved),
		"a record of several blocks":     unfinished(t, log, random(rnd, 4*blockSize), 5*blockSize, reserved),
		"two of its blocks":              unfinished(t, log, random(rnd, 4*blockSize), 2*blockSize, reserved),
		"a value with a copy":            unfinished(t, log, inValue, 1000, reserved),
		"a part that ends with the file": unfinished(t, log, random(rnd, 5*blockSize), 3*blockSize, 0),
		"a value of zeros":               unfinished(t, log, append(make([]byte, 2000), 1), 3000, reserved),
	}
}

// logsBefore returns the records of logs that end at various places of a block.
func logsBefore(t testing.TB) (all [][][]byte) {
	rnd := newRand(t)
	for _, end := range []int{100, sectorSize, sectorSize - 3, 4096 - 1, blockSize - headerSize, blockSize - 3, blockSize, 2*blockSize - 50} {
		first := [][]byte{random(rnd, 40)}
		log, _ := encode(t, first...)
		left := end - len(log) - headerSize
		if end > blockSize {
			left -= headerSize
		}
		all = append(all, append(first, random(rnd, left)))
		log, _ = encode(t, all[len(all)-1]...)
		require.Len(t, log, end)
	}
	return all
}

func TestALogWithReservedSpaceEndsBehindItsLastWholeRecord(t *testing.T) {
	for _, records := range logsBefore(t) {
		log, _ := encode(t, records...)
		for name, killed := range mappedTails(t, log) {
			name = fmt.Sprintf("%s after %d bytes", name, len(log))
			for _, o := range []ReaderOptions{{Last: true}, {Last: true, Live: true}, {Last: true, AllowTornEnd: true}} {
				r := open(killed, o)
				got, err := readAll(r)
				require.Same(t, io.EOF, err, name)
				requireRecords(t, records, got, name)
				require.Equal(t, int64(len(log)), r.End(), name)
				tail := r.Tail()
				require.NotEqual(t, TailDamaged, tail.Kind, name)
				if o.Live {
					require.Equal(t, Tail{Offset: r.End(), Resume: -1}, tail, name)
				} else {
					require.Equal(t, int64(len(bytes.TrimRight(killed[len(log):], "\x00"))), tail.Dropped, name)
				}
			}
			if name[:5] == "zeros" {
				continue
			}
			for _, o := range []ReaderOptions{{}, {AllowTornEnd: true}} { // it must be complete
				require.Error(t, result.Err(readAll(open(killed, o))), name)
			}
		}
	}
}

// writesFile is a mappedFile in memory that remembers where each Write began.
type writesFile struct {
	*memFile
	begins []int64
}

func (f *writesFile) Write(p []byte) (int, error) { return f.WriteParts(p) }

func (f *writesFile) WriteParts(parts ...[]byte) (int, error) {
	f.begins = append(f.begins, int64(f.Len()))
	return f.memFile.Write(bytes.Join(parts, nil))
}

func (f *writesFile) Cut() error { return nil }

// A process that is killed during a Write of several records leaves none of them, for LevelDB too: it skips the rest of
// the block whose record has zeros for a header, and would apply records of later blocks.
func TestBufferedRecordsOfAMappedLogAreWrittenByBlocks(t *testing.T) {
	rnd := newRand(t)
	f := &writesFile{memFile: newMemFile()}
	w := NewWriter(f)
	var records [][]byte
	var starts []int64
	for range 500 {
		p := random(rnd, rnd.Intn(1+rnd.Intn(1+rnd.Intn(1+rnd.Intn(3*blockSize)))))
		if room := blockSize - int(w.Size()%blockSize); rnd.Intn(10) == 0 && room > 20 && room < 1000 {
			p = random(rnd, room-headerSize-rnd.Intn(9)) // up to the end of the block, or almost
		}
		starts, records = append(starts, skipTrailer(w.Size())), append(records, p)
		if rnd.Intn(100) == 0 {
			require.NoError(t, w.WriteRecord(p))
		} else {
			require.NoError(t, w.BufferRecord(p))
		}
	}
	require.NoError(t, w.Flush())
	if wholeHeads {
		require.Less(t, len(f.begins), len(records)/3)
	}
	next := 0
	for i, begin := range f.begins {
		end := int64(f.Len())
		if i+1 < len(f.begins) {
			end = f.begins[i+1]
		}
		if end-begin < headerSize {
			continue // the zeros of a block's end
		}
		require.Equal(t, starts[next], begin)
		whole := next
		for ; next < len(starts) && starts[next] < end; next++ {
			require.Equal(t, begin/blockSize, starts[next]/blockSize)
		}
		for _, cut := range []int64{begin + headerSize + 1, begin + rnd.Int63n(end-begin), end}[rnd.Intn(3):] {
			killed := append(bytes.Clone(f.Bytes()[:cut]), make([]byte, 2*blockSize)...)
			clear(killed[begin : begin+headerSize])
			got, err := readAll(open(killed, ReaderOptions{Last: true}))
			require.Same(t, io.EOF, err)
			require.Len(t, got, whole)
		}
	}
	require.Len(t, records, next)
	got, err := readAll(open(f.Bytes(), ReaderOptions{}))
	require.Same(t, io.EOF, err)
	requireRecords(t, records, got)
}

// After a power cut, the page of a header may be as it was before, and later pages have later records.
func TestALostHeaderIsNoDamage(t *testing.T) {
	rnd := newRand(t)
	for _, at := range []int{100, sectorSize - 1, sectorSize - 2, sectorSize - 3, sectorSize - 4, sectorSize - 6, sectorSize, blockSize - headerSize} {
		records := [][]byte{random(rnd, at-headerSize), random(rnd, 3000), []byte("later")}
		log, ends := encode(t, records...)
		edge := min(sectorSize-at%sectorSize, headerSize)
		for name, part := range map[string][2]int{"first part": {0, edge}, "second part": {edge, headerSize}, "all": {0, headerSize}} {
			lost := bytes.Clone(log)
			clear(lost[at+part[0] : at+part[1]])
			if bytes.Equal(lost, log) {
				continue
			}
			r := open(lost, ReaderOptions{Last: true})
			got, err := readAll(r)
			if r.Tail().BitFlip {
				continue // a part of one byte with one bit
			}
			require.Same(t, io.EOF, err, "%s at %d", name, at)
			requireRecords(t, records[:1], got)
			require.Equal(t, TailHole, r.Tail().Kind)
			require.Equal(t, ends[1], r.Tail().Resume)
			_, err = readAll(open(lost, ReaderOptions{AllowTornEnd: true}))
			requireCorruption(t, err, int64(at))
			_, err = readAll(open(lost, ReaderOptions{}))
			requireCorruption(t, err, int64(at))
		}
	}
}

// A header with some zeros, such as a checksum that begins with them, is no lost one.
func TestAHeaderWithSomeZerosIsDamage(t *testing.T) {
	rnd := newRand(t)
	log, _ := encode(t, random(rnd, 93), random(rnd, 300), random(rnd, 30))
	clear(log[100:106])
	_, err := readAll(open(log, ReaderOptions{Last: true}))
	requireCorruption(t, err, 100)
}

// growingLog is the file of a log that another process appends to through memory.
type growingLog struct {
	file  []byte
	reads int // bytes
	calls int
}

func (g *growingLog) ReadAt(p []byte, off int64) (int, error) {
	if off >= int64(len(g.file)) {
		return 0, io.EOF
	}
	n := copy(p, g.file[off:])
	g.reads, g.calls = g.reads+n, g.calls+1
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func TestALiveLogIsReadAsItGrows(t *testing.T) {
	rnd := newRand(t)
	var records [][]byte
	for i := range 60 {
		records = append(records, random(rnd, 1+rnd.Intn(1<<(i%15))))
	}
	records = append(records, random(rnd, 3*blockSize), random(rnd, 20))
	log, ends := encode(t, records...)
	g := &growingLog{file: make([]byte, 1<<20)}
	r := NewReader(g, 0, ReaderOptions{Last: true, Live: true})
	begin := int64(0)
	for i := range records {
		head := skipTrailer(begin)
		copy(g.file[head+headerSize:ends[i]], log[head+headerSize:])
		r.Continue(0, int64(len(g.file)))
		_, err := r.Next() // its head is not there
		require.Same(t, io.EOF, err, "record %d", i)
		copy(g.file[head:], log[head:head+headerSize])
		r.Continue(0, int64(len(g.file)))
		got, err := r.Next()
		require.NoError(t, err, "record %d", i)
		require.True(t, bytes.Equal(records[i], got), "record %d", i)
		_, err = r.Next()
		require.Same(t, io.EOF, err, "record %d", i)
		begin = ends[i]
	}
	g.file = g.file[:len(log)] // the writer has finished it
	for range 2 {
		_, err := r.Next()
		require.Same(t, io.EOF, err)
		r.Continue(0, int64(len(g.file)))
	}
}

func TestALiveLogThatIsCutMeanwhileEndsThere(t *testing.T) {
	records, log, ends := smallLog(t, newRand(t))
	for _, seen := range []int{0, 1, len(records) - 1, len(records)} {
		g := &growingLog{file: append(bytes.Clone(log), make([]byte, 1<<20)...)}
		r := NewReader(g, int64(len(g.file)), ReaderOptions{Last: true, Live: true})
		for range seen {
			require.NoError(t, result.Err(r.Next()))
		}
		g.file = g.file[:len(log)]
		got, err := readAll(r)
		require.Same(t, io.EOF, err)
		requireRecords(t, records[seen:], got)
		require.Equal(t, ends[len(ends)-1], r.End())
	}
}

// A follower that looks often must not read megabytes of reserved space each time.
func TestZerosOfALiveLogCostOneShortRead(t *testing.T) {
	log, _ := encode(t, []byte("one"), []byte("two"))
	g := &growingLog{file: append(log, make([]byte, 4<<20)...)}
	r := NewReader(g, int64(len(g.file)), ReaderOptions{Last: true, Live: true})
	_, err := readAll(r)
	require.Same(t, io.EOF, err)
	g.reads, g.calls = 0, 0
	for range 100 {
		r.Continue(0, int64(len(g.file)))
		_, err := r.Next()
		require.Same(t, io.EOF, err)
	}
	require.Equal(t, 100, g.calls)
	require.Equal(t, 100*headerSize, g.reads)
}

// A machine that reorders loads may show a header without the bytes behind it, once.
func TestALiveLogIsReadAgainBeforeItIsJudged(t *testing.T) {
	records, log, _ := smallLog(t, newRand(t))
	zeros, file := 0, append(bytes.Clone(log), make([]byte, blockSize)...)
	r := NewReader(readerAt(func(p []byte, off int64) (int, error) {
		n := copy(p, file[off:])
		if len(p) > headerSize && off == 0 && zeros == 0 {
			zeros++
			clear(p[len(p)/2 : len(p)/2+2000])
		}
		return n, nil
	}), int64(len(file)), ReaderOptions{Last: true, Live: true})
	got, err := readAll(r)
	require.Same(t, io.EOF, err)
	requireRecords(t, records, got)
	require.Equal(t, 1, zeros)
}

func TestAheadDoesNotCountReservedSpace(t *testing.T) {
	log, ends := encode(t, make([]byte, 100), []byte("two"), []byte("three"))
	r := open(append(log, make([]byte, 1<<20)...), ReaderOptions{Last: true, Live: true})
	require.NoError(t, result.Err(r.Next()))
	require.Equal(t, ends[2]-ends[0], r.Ahead())
	_, err := readAll(r)
	require.Same(t, io.EOF, err)
	require.Zero(t, r.Ahead())

	log, ends = encode(t, []byte("one"), random(newRand(t), 2*blockSize))
	r = open(log, ReaderOptions{})
	require.NoError(t, result.Err(r.Next()))
	require.Equal(t, ends[1]-ends[0], r.Ahead())
}

func TestIsBlank(t *testing.T) {
	for _, size := range []int{0, 1, sectorSize, sectorSize + 1, blockSize + sectorSize, 3*blockSize + 17} {
		b := make([]byte, size)
		blank := result.Of(IsBlank(bytes.NewReader(b), int64(size)))(t)
		require.True(t, blank)
		if size > 0 {
			b[size-1] = 1
			blank = result.Of(IsBlank(bytes.NewReader(b), int64(size)))(t)
			require.False(t, blank)
		}
	}
	require.ErrorIs(t, result.Err(IsBlank(bytes.NewReader(nil), 1)), io.ErrUnexpectedEOF)
}

// The head of a record that is zeros is never one bit from a valid chunk.
func TestZerosAreNoFlippedBit(t *testing.T) {
	require.Negative(t, flippedBit(make([]byte, blockSize)))
}
