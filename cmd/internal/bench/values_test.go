package bench

import (
	"compress/flate"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestValuesCompressToTheirRatio(t *testing.T) {
	for _, ratio := range []float64{0.1, 0.5, 1} {
		src := NewValueSource(rand.New(rand.NewPCG(1, 1)), 100, ratio)
		var packed counter
		w, err := flate.NewWriter(&packed, flate.BestSpeed)
		require.NoError(t, err)
		const values = 5000
		for range values {
			value := src.Next(100)
			require.Len(t, value, 100)
			_, err := w.Write(value)
			require.NoError(t, err)
		}
		require.NoError(t, w.Close())
		// Letters have less than eight bits of entropy, and matches need some space.
		require.InDelta(t, ratio, float64(packed)/(values*100), 0.2)
	}
}

func TestValuesMayBeLongerThanTheText(t *testing.T) {
	src := NewValueSource(rand.New(rand.NewPCG(1, 1)), 3<<20, 0.5)
	require.Len(t, src.Next(3<<20), 3<<20)
	require.Len(t, src.Next(3<<20), 3<<20)
	require.Empty(t, src.Next(0))
}

type counter int

func (c *counter) Write(p []byte) (int, error) { *c += counter(len(p)); return len(p), nil }

var _ io.Writer = (*counter)(nil)

func TestTheValueOfANumberIsAlwaysTheSame(t *testing.T) {
	const size = 100
	src := NewValueSource(rand.New(rand.NewPCG(1, 1)), size, 0.5)
	again := NewValueSource(rand.New(rand.NewPCG(1, 1)), size, 0.5)
	require.NotEqual(t, src.At(0, size), src.At(1, size))
	for _, number := range []uint64{0, 1, 10_484, 10_485, 10_486, 1 << 63, 1<<64 - 1} {
		require.Equal(t, again.At(number, size), src.At(number, size), number)
	}
}

func TestListsAreSplitAtCommas(t *testing.T) {
	require.Equal(t, []string{"a", "b c"}, SplitList(" a,,b c ,"))
	require.Empty(t, SplitList(" , "))
}
