package tables

import (
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
