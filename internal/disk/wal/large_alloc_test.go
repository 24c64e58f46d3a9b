//go:build !race

package wal

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/test/damage"
	"github.com/sievedb/sievedb/internal/test/result"
)

// The race detector allocates too, so these tests are built without it.

// A large record was copied with its chunk headers into a buffer that grew step by step, which
// allocated five times its size.
func TestALargeRecordIsWrittenWithoutCopyingIt(t *testing.T) {
	const size = 40 << 20
	record := random(newRand(t), size)
	w := NewWriter(discard{})
	before := damage.Allocated()
	require.NoError(t, w.WriteRecord(record))
	require.LessOrEqual(t, damage.Allocated()-before, uint64(maxKeptBuffer+1<<20))
	require.LessOrEqual(t, cap(w.buf), maxKeptBuffer)
	require.EqualValues(t, size+(size+blockSize-headerSize-1)/(blockSize-headerSize)*headerSize, w.Size())
}

// The buffer for a large record was doubled until it fitted, which allocated more than three times its size.
func TestALargeRecordIsReadIntoMemoryOfItsSize(t *testing.T) {
	const size = 33 << 20 // just too much for a buffer that is doubled
	record := random(newRand(t), size)
	log, _ := encode(t, []byte("x"), record, []byte("y"))
	r := open(log, ReaderOptions{})
	require.NoError(t, result.Err(r.Next()))
	before := damage.Allocated()
	got := result.Of(r.Next())(t)
	require.LessOrEqual(t, damage.Allocated()-before, uint64(size+size/8+4*minMeasured))
	require.True(t, bytes.Equal(record, got))
	require.NoError(t, result.Err(r.Next()))

	for name, harm := range map[string]func(log []byte) []byte{
		"cut":             func(log []byte) []byte { return log[:size/2] },
		"a wrong length":  func(log []byte) []byte { log[20<<20+4]++; return log },
		"unknown kind":    func(log []byte) []byte { log[20<<20+6] = 9; return log },
		"zeros at a page": func(log []byte) []byte { clear(log[20<<20 : 21<<20]); return log },
	} {
		r := open(harm(bytes.Clone(log)), ReaderOptions{})
		require.NoError(t, result.Err(r.Next()), name)
		require.ErrorIs(t, result.Err(r.Next()), base.ErrCorruption, name)
	}
}
