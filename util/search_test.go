package util

import (
	"encoding/binary"
	"math"
	"sort"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLowerBound64(t *testing.T) {
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

func TestPrefix64PadsWithZeros(t *testing.T) {
	for n := range 20 {
		key := make([]byte, n)
		for i := range key {
			key[i] = byte(0xff - i)
		}
		for from := range n + 1 {
			var want [8]byte
			copy(want[:], key[from:])
			require.Equal(t, binary.BigEndian.Uint64(want[:]), Prefix64(key, from), "%d of %d bytes", from, n)
		}
	}
}
