package util

import (
	"math"
	"sort"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLowerBoundIsTheFirstThatIsNotLess(t *testing.T) {
	for n := range 40 {
		a := make([]uint64, n)
		for i := range a {
			a[i] = uint64(i / 2 * 3)
		}
		for _, x := range []uint64{0, 1, 2, 3, 4, 5, 6, 29, 30, 31, 60, math.MaxUint64} {
			want := sort.Search(n, func(i int) bool { return a[i] >= x })
			require.Equal(t, want, LowerBound64(a, x), "%d of %d", x, n)
		}
	}
}
