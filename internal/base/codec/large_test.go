package codec

import (
	"math/bits"
	"testing"

	"github.com/stretchr/testify/require"
)

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
