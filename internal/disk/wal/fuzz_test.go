package wal

import (
	"bytes"
	"encoding/hex"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/test/damage"
	"github.com/sievedb/sievedb/internal/test/result"
)

// fuzzRoom is how many bytes of the first block FuzzReader leaves free if it fills the others.
const fuzzRoom = 100

// FuzzReader reads arbitrary bytes as a log in every mode and salvages all readable records. The Reader must not panic
// or loop, and its memory must be in proportion to the log. The records must survive encoding and decoding.
func FuzzReader(f *testing.F) {
	// Long inputs slow the fuzzer down; mode 16 places short ones across the end of a block.
	short := readVectors(f)[0].log
	f.Add(short, byte(0))
	f.Add(short[:len(short)-3], byte(1))
	f.Add(append(bytes.Clone(short), make([]byte, 600)...), byte(2))
	f.Add(appendChunk(make([]byte, 0), kindFirst, bytes.Repeat([]byte{9}, fuzzRoom-headerSize)), byte(17))
	first := appendChunk(nil, kindFirst, bytes.Repeat([]byte{9}, fuzzRoom-headerSize))
	f.Add(appendChunk(first, kindLast, nil), byte(16))
	log, ends := encode(f, []byte("one"), make([]byte, 1000), []byte("three"))
	flipped := bytes.Clone(log)
	flipped[ends[0]+5] ^= 0x40
	f.Add(flipped, byte(1))
	clear(log[ends[0] : ends[0]+600])
	f.Add(log, byte(1))
	f.Add(hostileLog(1000), byte(1))
	f.Add(unfinished(f, short, []byte("a record"), 5, 2000), byte(1))
	f.Add(unfinished(f, short, []byte("a record"), 5, 2000), byte(33))
	appended := unfinished(f, short, []byte("a record"), 5, 2000)
	appended = append(append(appended, make([]byte, blockSize-len(appended))...), short...)
	f.Add(appended, byte(65))
	f.Add(appended, byte(97))

	f.Fuzz(func(t *testing.T, log []byte, mode byte) {
		o := ReaderOptions{Last: mode&1 != 0, AllowTornEnd: mode&2 != 0, Live: mode&32 != 0}
		if mode&4 != 0 {
			o.Plausible = func(p []byte, lost int64) bool { return lost > 0 && len(p)%2 == 0 }
		}
		if mode&8 != 0 {
			o.MaxRecord = 1000
		}
		if mode&16 != 0 {
			front, _ := encode(t, make([]byte, blockSize-headerSize-fuzzRoom))
			log = append(front, log...)
		}
		before := damage.Allocated()
		r := open(log, o)
		var records [][]byte
		for end := int64(0); ; {
			got, err := readAll(r)
			records = append(records, got...)
			tail := r.Tail()
			checkTail(t, tail, log, end)
			if err == io.EOF {
				require.NotEqual(t, TailDamaged, tail.Kind)
			} else {
				require.ErrorIs(t, err, base.ErrCorruption)
			}
			found := false
			if mode&64 != 0 {
				found = result.Of(r.FindAppended(func([]byte) bool { return true }))(t)
				require.Equal(t, tail.Offset, r.End())
				tail = r.Tail()
			}
			if !r.Skip() {
				require.False(t, found)
				break
			}
			if end = tail.Resume; found {
				require.Zero(t, end%blockSize)
				record := result.Of(r.Next())(t)
				records = append(records, bytes.Clone(record))
				end = r.End()
			}
		}
		require.Less(t, damage.Allocated()-before, uint64(1<<20+16*len(log)))

		again, _ := encode(t, records...)
		back, err := readAll(open(again, ReaderOptions{}))
		require.Same(t, io.EOF, err)
		requireRecords(t, records, back)
	})
}

// checkTail checks that a tail of a log is consistent and does not begin before end.
func checkTail(t *testing.T, tail Tail, log []byte, end int64) {
	size := int64(len(log))
	require.GreaterOrEqual(t, tail.Offset, end)
	require.LessOrEqual(t, tail.Offset, size)
	if tail.Kind == TailClean {
		require.Zero(t, tail.Dropped)
		require.Equal(t, int64(-1), tail.Resume)
		return
	}
	require.Equal(t, int64(usedLen(log[tail.Offset:])), tail.Dropped)
	require.NotEmpty(t, tail.Reason)
	if tail.Kind == TailTorn {
		require.Equal(t, int64(-1), tail.Resume)
	}
	if tail.Kind == TailHole {
		require.Greater(t, tail.Resume, tail.Offset)
	}
	if tail.Resume >= 0 {
		require.GreaterOrEqual(t, tail.Resume, tail.Offset)
		require.LessOrEqual(t, tail.Resume+headerSize, size)
	}
}

// FuzzRoundTrip writes records of arbitrary lengths, each given by two bytes, and reads them back
// from the complete log and from a truncated one.
func FuzzRoundTrip(f *testing.F) {
	f.Add([]byte{0, 0, 0, 1, 2, 0}, uint16(5))
	f.Add([]byte{0x7f, 0xf9, 0, 0, 0x7f, 0xf2, 0, 3}, uint16(0))
	f.Add([]byte{0x7f, 0xf3, 0xff, 0xff, 0xff, 0xff}, uint16(40_000))
	f.Fuzz(func(t *testing.T, sizes []byte, cut uint16) {
		var records [][]byte
		for ; len(sizes) >= 2 && len(records) < 64; sizes = sizes[2:] {
			n := int(sizes[0])<<8 | int(sizes[1])
			records = append(records, bytes.Repeat([]byte{byte(len(records))}, n))
		}
		log, ends := encode(t, records...)
		got, err := readAll(open(log, ReaderOptions{}))
		require.Same(t, io.EOF, err)
		requireRecords(t, records, got)

		short := max(0, len(log)-int(cut))
		got, err = readAll(open(log[:short], ReaderOptions{Last: true}))
		require.Same(t, io.EOF, err)
		requireRecords(t, records[:wholeBefore(ends, short)], got)
	})
}

// FuzzUnfinished appends a record to a log through memory and is killed: any bytes of the record may be there, except
// its header. The log ends before it, for a reader of the newest log and for one that follows the writer.
func FuzzUnfinished(f *testing.F) {
	whole, _ := encode(f, []byte("a copy"))
	f.Add(uint16(10), whole, uint16(0xffff), uint16(0), uint16(4096))
	f.Add(uint16(blockSize-100), bytes.Repeat([]byte{1}, 300), uint16(50), uint16(20), uint16(0))
	f.Add(uint16(blockSize-headerSize-headerSize), []byte("x"), uint16(3), uint16(0), uint16(100))
	f.Fuzz(func(t *testing.T, before uint16, value []byte, body, hole, reserved uint16) {
		first := bytes.Repeat([]byte{7}, int(before))
		log, _ := encode(t, first)
		killed := unfinished(t, log, value, int(body), len(log)+int(reserved))
		if at := len(log) + int(hole); at < len(killed) { // a copy need not be in order
			clear(killed[at:min(len(killed), at+100)])
		}
		for _, o := range []ReaderOptions{{Last: true}, {Last: true, Live: true}} {
			r := open(killed, o)
			got, err := readAll(r)
			require.Same(t, io.EOF, err)
			requireRecords(t, [][]byte{first}, got)
			checkTail(t, r.Tail(), killed, int64(len(log)))
		}
	})
}

// vector is one log of testdata/logs.txt.
type vector struct {
	name    string
	records [][]byte
	log     []byte
}

func readVectors(t testing.TB) []vector {
	text := result.Of(os.ReadFile("testdata/logs.txt"))(t)
	var all []vector
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line, "#")
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch {
		case word == "":
		case word == "log":
			all = append(all, vector{name: rest})
		case word == "record":
			v := &all[len(all)-1]
			v.records = append(v.records, vectorBytes(t, rest))
		default:
			v := &all[len(all)-1]
			v.log = append(v.log, vectorBytes(t, line)...)
		}
	}
	require.NotEmpty(t, all)
	return all
}

// vectorBytes decodes "61 62 63", or "61 * 1000".
func vectorBytes(t testing.TB, s string) []byte {
	digits, times, repeated := strings.Cut(s, "*")
	b := result.Of(hex.DecodeString(strings.ReplaceAll(strings.TrimSpace(digits), " ", "")))(t)
	if repeated {
		n := result.Of(strconv.Atoi(strings.TrimSpace(times)))(t)
		b = bytes.Repeat(b, n)
	}
	return b
}

func TestVectorsRoundTrip(t *testing.T) {
	for _, v := range readVectors(t) {
		t.Run(v.name, func(t *testing.T) {
			for _, o := range []ReaderOptions{{}, {Last: true}, {AllowTornEnd: true}} {
				r := open(v.log, o)
				got, err := readAll(r)
				require.Same(t, io.EOF, err)
				requireRecords(t, v.records, got)
				require.Equal(t, Tail{Offset: int64(len(v.log)), Resume: -1}, r.Tail())
			}
			log, _ := encode(t, v.records...)
			require.Len(t, log, len(v.log))
			require.True(t, bytes.Equal(v.log, log))
		})
	}
}
