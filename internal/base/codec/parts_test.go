package codec

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

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
					stored, err := CompressParts(block, kind)
					require.NoError(t, err)
					if kind == Zstd && n >= snappyPiece && share < 0.3 { // near the eighth the two may differ
						continue
					}
					require.Equal(t, wantKind, stored.Kind)
					got := bytes.Join(stored.Parts, nil)
					if kind != Zstd {
						require.True(t, bytes.Equal(want, got))
					}
					plain, err := Decode(stored.Kind, got, nil, "block")
					require.NoError(t, err)
					require.True(t, bytes.Equal(whole, plain))
					stored.Release()
				}
			})
		}
	}
	_, err := CompressParts(Parts{make([]byte, 1<<20)}, 9)
	require.ErrorContains(t, err, "compression kind 9 cannot be written")
}
