package wal

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
)

// A chunk of a later version was taken for the torn end of the log, so that Open dropped it and all records after it.
func TestAChunkOfAnUnknownKindIsNewer(t *testing.T) {
	one, ends := encode(t, []byte("one"))
	for _, kind := range []byte{kindLast + 1, 127, 255} {
		later := append([]byte(nil), one...)
		chunk := append(appendChunkHeader(nil, 3, kind), "two"...)
		sealChunk(chunk)
		later = append(later, chunk...)
		three, _ := encode(t, []byte("three"))
		for _, o := range []ReaderOptions{{Last: true}, {}, {AllowTornEnd: true}} {
			for _, log := range [][]byte{later, append(append([]byte(nil), later...), three...)} {
				r := open(log, o)
				got, err := readAll(r)
				require.Len(t, got, 1)
				var n *base.NewerError
				require.ErrorAs(t, err, &n)
				require.Equal(t, ends[0], n.Offset)
				require.NotErrorIs(t, err, base.ErrCorruption)
				require.Equal(t, TailNewer, r.Tail().Kind)
				require.Equal(t, "newer", r.Tail().Kind.String())
				require.False(t, r.Skip())
			}
		}
		// Without its checksum, or without its end, it is the torn end of a log.
		for _, cut := range [][]byte{later[:len(later)-1], append(append([]byte(nil), later[:len(later)-1]...), 'x')} {
			r := open(cut, ReaderOptions{Last: true})
			_, err := readAll(r)
			require.EqualError(t, err, "EOF")
			require.Equal(t, TailTorn, r.Tail().Kind)
		}
	}
}
