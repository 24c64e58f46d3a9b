package wal

import (
	"bytes"
	"fmt"
	"io"
	"testing"

	"github.com/sievedb/sievedb/util"
	"github.com/stretchr/testify/require"
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
