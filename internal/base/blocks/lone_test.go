package blocks

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/util"
)

func TestLoneBitsAreThoseThatWereSet(t *testing.T) {
	var l Lone
	require.Empty(t, l.Append(nil))
	for _, i := range []int{0, 7, 8, 1000, 8*maxLone - 1, 8 * maxLone} {
		l = l.With(i)
	}
	require.Len(t, l, maxLone)
	for i := range 8*maxLone + 9 {
		require.Equal(t, i == 0 || i == 7 || i == 8 || i == 1000 || i == 8*maxLone-1, l.Has(i))
	}
	require.Equal(t, []byte{2, 0x81, 1}, Lone(nil).With(0).With(7).With(8).Append(nil))
	require.Equal(t, l, DecodeLone(append(l.Append(nil), 1, 2)))
	require.Empty(t, DecodeLone(nil))
	require.Empty(t, DecodeLone([]byte{3, 1, 1}), "cut off")
}

func FuzzLone(f *testing.F) {
	f.Add([]byte{2, 5, 128}, 3)
	f.Add(Lone(nil).With(1000).Append(nil), 1000)
	f.Add(append(util.AppendUvarint64(nil, maxLone+1), make([]byte, maxLone+1)...), 0)
	f.Add([]byte{255, 255, 255, 255, 255, 255, 255, 255, 255, 1}, 0)
	f.Fuzz(func(t *testing.T, data []byte, i int) {
		l := DecodeLone(data)
		require.LessOrEqual(t, len(l), min(len(data), maxLone))
		l.Has(i & 0xffffff)
		require.True(t, bytes.Equal(l, DecodeLone(append(l.Append(nil), 7))) || len(l) == 0)
	})
}
