package wal

import (
	"bytes"
	"errors"
	"flag"
	"io"
	"math/rand"
	"testing"
	"time"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/stretchr/testify/require"
)

var seedFlag = flag.Int64("seed", 0, "seed of the random tests; 0 uses the clock")

// newRand returns a generator whose seed is logged.
func newRand(t testing.TB) *rand.Rand {
	seed := *seedFlag
	if seed == 0 {
		seed = time.Now().UnixNano()
	}
	t.Logf("-seed=%d", seed)
	return rand.New(rand.NewSource(seed))
}

// memFile is a File in memory that counts calls and fails on request.
type memFile struct {
	bytes.Buffer
	writes, syncs, closes      int
	writeErr, syncErr, closErr error
	short                      int // if >= 0, Write writes at most this many bytes
}

func newMemFile() *memFile { return &memFile{short: -1} }

func (f *memFile) Write(p []byte) (int, error) {
	f.writes++
	if f.short >= 0 {
		p = p[:min(f.short, len(p))]
	}
	n, _ := f.Buffer.Write(p)
	return n, f.writeErr
}

func (f *memFile) Sync() error  { f.syncs++; return f.syncErr }
func (f *memFile) Close() error { f.closes++; return f.closErr }

// encode returns the log of the given records and where each ends.
func encode(t testing.TB, records ...[]byte) (log []byte, ends []int64) {
	f := newMemFile()
	w := NewWriter(f)
	for _, p := range records {
		require.NoError(t, w.WriteRecord(p))
		ends = append(ends, w.Size())
	}
	return f.Bytes(), ends
}

// open returns a Reader over log.
func open(log []byte, o ReaderOptions) *Reader {
	return NewReader(bytes.NewReader(log), int64(len(log)), o)
}

// readAll returns copies of the records up to the first error, and the error.
func readAll(r *Reader) (records [][]byte, err error) {
	for {
		p, err := r.Next()
		if err != nil {
			return records, err
		}
		records = append(records, append([]byte{}, p...))
	}
}

// random returns n bytes without a zero, so they contain no sector of zeros by chance.
func random(rnd *rand.Rand, n int) []byte {
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(1 + rnd.Intn(255))
	}
	return p
}

// requireRecords compares records without printing them, because they may have megabytes.
func requireRecords(t testing.TB, want, got [][]byte, what ...any) {
	t.Helper()
	require.Len(t, lengths(got), len(want), what...)
	require.Equal(t, lengths(want), lengths(got), what...)
	for i := range want {
		require.True(t, bytes.Equal(want[i], got[i]), "record %d differs: %v", i, what)
	}
}

func lengths(records [][]byte) []int {
	n := make([]int, len(records))
	for i, p := range records {
		n[i] = len(p)
	}
	return n
}

// requireCorruption checks that err is corruption at offset off and does not name a file.
func requireCorruption(t testing.TB, err error, off int64, what ...any) {
	t.Helper()
	require.ErrorIs(t, err, base.ErrCorruption, what...)
	var c *base.CorruptionError
	require.True(t, errors.As(err, &c), what...)
	require.Equal(t, "log record", c.Part, what...)
	require.Equal(t, off, c.Offset, what...)
	require.Empty(t, c.File, what...)
}

// readerAt is a function as an io.ReaderAt.
type readerAt func(p []byte, off int64) (int, error)

func (f readerAt) ReadAt(p []byte, off int64) (int, error) { return f(p, off) }

var _ io.ReaderAt = readerAt(nil)
