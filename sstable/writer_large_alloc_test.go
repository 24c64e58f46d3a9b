//go:build !race

package sstable

import (
	"bytes"
	"io"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/test/damage"
)

// The race detector allocates too, so allocations are counted without it.

// A large value was copied to a block, and then compressed or copied to the file's buffer.
// That used twice its size, and both buffers were kept for the next table.
func TestALargeEntryIsNotCopied(t *testing.T) {
	const size = 24 << 20
	for name, c := range map[string]struct {
		kind  Compression
		share float64
		times float64 // of the size may be allocated
	}{
		"raw": {NoCompression, 0, 0}, "half": {Snappy, 0.5, 0.6}, "Snappy, not smaller": {Snappy, 0, 0.9},
		"half, Zstandard": {Zstd, 0.5, 0.6}, "Zstandard, not smaller": {Zstd, 0, 0.9},
	} {
		t.Run(name, func(t *testing.T) {
			value := mixed(size, c.share)
			defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a collection would free idle encoders
			w := NewWriter(io.Discard, WriterOptions{Compression: c.kind})
			require.NoError(t, w.Add(ikey("a", 1, base.KindSet), value[:2<<20])) // makes the encoder
			before := damage.Allocated()
			require.NoError(t, w.Add(ikey("b", 1, base.KindSet), value))
			took := damage.Allocated() - before
			// A goroutine that moves to another processor may have to make the encoder again, 5 MB.
			// A copy of the value would be 24 MiB.
			require.LessOrEqual(t, float64(took), c.times*size+10<<20)
			require.NoError(t, w.Add(ikey("c", 1, base.KindSet), []byte("small")))
			finish(t, w)
			require.Less(t, w.MemoryKept(), uint64(2<<20))
		})
	}
}

// Each lookup of a value of a mebibyte allocated memory for it twice: as it is stored, and decompressed.
// (The decoder of Zstandard has buffers of its own.)
func TestLookupsOfLargeValuesUseTheirMemoryAgain(t *testing.T) {
	for _, kind := range []Compression{NoCompression, Snappy} {
		es := entries{{Key: ikey("a", 1, base.KindSet), Value: mixed(1<<20, 0.5)}, {Key: ikey("b", 1, base.KindSet), Value: mixed(3<<20, 0.5)}}
		r, _ := openTable(t, buildTable(t, WriterOptions{Compression: kind}, es), ReaderOptions{})
		look := func(i int) {
			var lk Lookup
			defer lk.Release()
			lk.Init(base.UserKey(es[i].Key), 9)
			res, err := r.Get(&lk)
			require.NoError(t, err)
			require.True(t, bytes.Equal(es[i].Value, res.Value))
		}
		defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a collection would free idle memory
		for range 10 {                                   // until there are buffers of both sizes
			look(1)
			look(0)
		}
		before := damage.Allocated()
		for range 20 {
			look(1)
			look(0)
		}
		// A goroutine that moves to another processor may find no idle memory there.
		require.Less(t, damage.Allocated()-before, uint64(12<<20), "compressed as %d", kind)
	}
}
