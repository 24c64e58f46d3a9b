package codec

import (
	"bytes"
	"compress/flate"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/test/result"
)

// bomb returns a deflate stream, or a zlib stream with a wrong checksum, of n bytes of zeros or somewhat more.
func bomb(t testing.TB, kind uint8, n int) []byte {
	var out bytes.Buffer
	if kind == Zlib {
		out.Write([]byte{0x78, 0x9c})
	}
	w := result.Of(flate.NewWriter(&out, flate.BestCompression))(t)
	const step = 1 << 16
	start := out.Len()
	require.NoError(t, result.Err(w.Write(make([]byte, step))))
	require.NoError(t, w.Flush())
	// A flushed chunk begins and ends with whole bytes, and can be repeated.
	chunk := bytes.Clone(out.Bytes()[start:])
	for made := step; made < n; made += step {
		out.Write(chunk)
	}
	out.Write([]byte{3, 0, 0, 0, 0, 0}) // a last block, empty, and four bytes for zlib
	if kind == Deflate {
		return out.Bytes()[:out.Len()-4]
	}
	return out.Bytes()
}

func TestInflatingIsBounded(t *testing.T) {
	t.Run("decoding stops at the limit", func(t *testing.T) {
		for _, kind := range []uint8{Zlib, Deflate} {
			for _, most := range []int{0, 1, minInflated - 1, minInflated, minInflated + 1, 100_000} {
				f := inflater{}
				require.NoError(t, f.inflate(bomb(t, kind, 10*most+1<<20), kind, most))
				require.Greater(t, len(f.out), most, "the caller can detect it")
				require.LessOrEqual(t, cap(f.out), most+most/2+2*minInflated, "memory is bounded too")
			}
		}
	})
	t.Run("a bomb stops at 64 MiB", func(t *testing.T) {
		raw := bomb(t, Deflate, MaxDecoded+1)
		require.Less(t, len(raw), 100<<10)
		_, err := Decode(Deflate, raw, nil, "block")
		require.ErrorIs(t, err, base.ErrCorruption)
		require.ErrorContains(t, err, fmt.Sprintf("want at most %d", MaxDecoded))
	})
	t.Run("an idle decoder keeps little", func(t *testing.T) {
		f := &inflater{out: make([]byte, 2*keptInflated)}
		f.src.Reset([]byte("raw"))
		f.release()
		require.Nil(t, f.out)
		require.Zero(t, f.src.Len())
	})
}

func TestZlibIsRecognized(t *testing.T) {
	require.False(t, IsZlib([]byte{0x28, 0xb5, 0x2f, 0xfd}), "Zstandard's magic number")
	for _, c := range []struct {
		name string
		head []byte
		want bool
	}{
		{"the smallest window", []byte{0x18, 0x19}, true},
		{"the usual header", []byte{0x78, 0x9c}, true},
		{"another method", []byte{0x79, 0x1a}, false},
		{"a window above 32 KiB", []byte{0x88, 0x1c}, false},
		{"a dictionary", []byte{0x78, 0xbb}, false},
		{"not a multiple of 31", []byte{0x78, 0x9d}, false},
		{"one byte", []byte{0x78}, false},
		{"nothing", nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, IsZlib(c.head))
		})
	}
}

func TestBlocksAreStoredAndRead(t *testing.T) {
	block := bytes.Repeat([]byte("a block of a table "), 300)
	for _, kind := range []uint8{None, Snappy, Zstd} {
		stored, as, err := Append([]byte("before"), block, kind)
		require.NoError(t, err)
		require.Equal(t, kind, as)
		got := result.Of(Decode(kind, stored[len("before"):], nil, "block"))(t)
		require.Equal(t, block, got)
	}
	_, _, err := Append(nil, block, Deflate)
	require.ErrorContains(t, err, "compression kind 4 cannot be written")
	require.ErrorContains(t, result.Err(Decode(77, block, nil, "block")), "compression kind 77 is unknown")
	stored, as, err := Append(nil, []byte{1, 2, 3}, Snappy)
	require.NoError(t, err)
	require.Equal(t, None, as, "it saves nothing")
	require.Equal(t, []byte{1, 2, 3}, stored)
}

func TestSizedKeepsMemoryOfItsSize(t *testing.T) {
	small, large := make([]byte, 10, 100), make([]byte, 4*MaxScratch)
	require.Same(t, &small[0], &Sized(small, 100)[0])
	require.Len(t, Sized(small, 101), 101)
	require.NotSame(t, &large[0], &Sized(large, MaxScratch)[0], "a quarter of it")
	require.Same(t, &large[0], &Sized(large, MaxScratch+1)[0])
}

func TestLargeBuffersAreKeptForLargeBlocks(t *testing.T) {
	require.Equal(t, []int{bits.Len(MaxScratch), bits.Len(MaxLarge)}, []int{firstLarge, lastLarge})
	small := make([]byte, 10, MaxScratch)
	require.Same(t, &small[0], &KeepLarge(small)[0])
	require.Nil(t, KeepLarge(nil))
	require.Nil(t, KeepLarge(make([]byte, MaxScratch+1)))
	require.Nil(t, KeepLarge(make([]byte, MaxLarge+1)), "too large to be kept")
	require.Nil(t, KeepLarge(make([]byte, MaxLarge)))
	for _, n := range []int{0, 10, MaxScratch, MaxScratch + 1, 1 << 20, MaxLarge, MaxLarge + 1} {
		got := Large(small, n)
		if n <= MaxScratch || n > MaxLarge {
			require.Same(t, &small[0], &got[0])
		} else if cap(got) > MaxScratch { // the garbage collector may have freed what was kept
			require.GreaterOrEqual(t, cap(got), n)
			require.Nil(t, KeepLarge(got))
		}
	}
}

// partlyRandom returns n bytes whose last part, of the given share, is zeros.
func partlyRandom(n int, share float64) []byte {
	var seed [32]byte
	b := make([]byte, n)
	_, _ = rand.NewChaCha8(seed).Read(b[:int(float64(n)*(1-share))]) // it never fails
	return b
}

// A large block is compressed piece by piece, with the same result as in one piece.
func TestALargeBlockIsStoredLikeASmallOne(t *testing.T) {
	for _, n := range []int{0, 1, 17, snappyPiece - 3, snappyPiece, snappyPiece + 5, 1 << 20, 3<<20 + 77} {
		for _, share := range []float64{0, 0.1, 0.5, 1} {
			t.Run(fmt.Sprintf("%d bytes/%v saved", n, share), func(t *testing.T) {
				value := partlyRandom(n, share)
				block := Parts{[]byte("head"), []byte("k"), value, nil, []byte("tail")}
				whole := bytes.Join(block, nil)
				for _, kind := range []uint8{None, Snappy, Zstd} {
					want, wantKind, err := Append(nil, whole, kind)
					require.NoError(t, err)
					stored := result.Of(CompressParts(block, kind))(t)
					if kind == Zstd && n >= snappyPiece && share < 0.3 { // near the eighth the two may differ
						continue
					}
					require.Equal(t, wantKind, stored.Kind)
					got := bytes.Join(stored.Parts, nil)
					if kind != Zstd {
						require.True(t, bytes.Equal(want, got))
					}
					plain := result.Of(Decode(stored.Kind, got, nil, "block"))(t)
					require.True(t, bytes.Equal(whole, plain))
					stored.Release()
				}
			})
		}
	}
	_, err := CompressParts(Parts{make([]byte, 1<<20)}, 9)
	require.ErrorContains(t, err, "compression kind 9 cannot be written")
}
