package tables

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
)

func TestApproximateSizeIsThatOfTheRangesBlocks(t *testing.T) {
	s := newShelf(t, 3)
	f := s.write(t, numbered(0, 4000, 1), 4000)[0]
	key := func(i int) []byte { return []byte{'k', byte(i >> 8), byte(i)} }
	size := func(start, limit []byte) uint64 {
		n, err := s.cache.ApproximateSize(f, start, limit)
		require.NoError(t, err)
		return n
	}
	require.Equal(t, f.Size, size(nil, nil))
	require.Equal(t, f.Size, size(base.UserKey(f.Smallest), nil))
	require.Zero(t, size(nil, base.UserKey(f.Smallest)), "the limit is excluded")
	require.Zero(t, size(key(4000), nil))
	require.Nil(t, Of(f).Peek(), "none of these calls opened the table")
	require.InEpsilon(t, f.Size/2, size(key(1000), key(3000)), 0.2)
	require.Zero(t, size(key(3000), key(1000)))
}

// A table's index ends with a separator above the last key. A limit between the two made the last block count as 0
// bytes, and so a table of one block.
func TestALimitBehindTheLastKeyCountsTheLastBlock(t *testing.T) {
	s := newShelf(t, 3)
	for _, keys := range []int{2, 4000} {
		f := s.write(t, numbered(0, keys, 1), keys)[0]
		last := base.UserKey(f.Largest)
		behind := append(bytes.Clone(last), 0)
		for _, limit := range [][]byte{behind, append(bytes.Clone(last), 0xff), []byte("z"), nil} {
			n, err := s.cache.ApproximateSize(f, last, limit)
			require.NoError(t, err)
			require.Positive(t, n, "%d keys, limit %x", keys, limit)
		}
		before, err := s.cache.ApproximateSize(f, nil, last)
		require.NoError(t, err)
		after, err := s.cache.ApproximateSize(f, last, behind)
		require.NoError(t, err)
		require.Equal(t, f.Size, before+after)
	}
}
