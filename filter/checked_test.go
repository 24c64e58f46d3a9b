package filter

import (
	"math/bits"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every lost bit of a filter is noticed.
func TestCountDeniedNoticesEveryLostBit(t *testing.T) {
	keys := le32Keys(0, 200)
	var plain []uint32
	var lines []uint64
	for _, key := range keys {
		plain, lines = append(plain, bloomHash(key)), append(lines, cacheLineHash(key))
	}
	for _, c := range []struct {
		policy BloomPolicy
		tail   int // bytes after the bits
		denied func(filter []byte) int
	}{
		{NewBloomPolicy(10), 1, func(filter []byte) int { return countDenied(filter, plain) }},
		{NewCacheLineBloomPolicy(10), lineTailBytes, func(filter []byte) int { return countDeniedByLines(filter, lines) }},
	} {
		filter := c.policy.CreateFilter(nil, keys)
		require.Zero(t, c.denied(filter))
		for i, b := range filter[:len(filter)-c.tail] {
			for ; b != 0; b &= b - 1 {
				bit := byte(1) << bits.TrailingZeros8(b)
				filter[i] ^= bit
				require.Positive(t, c.denied(filter), "%s, byte %d", c.policy.Name(), i)
				filter[i] ^= bit
			}
		}
	}
	require.Equal(t, 200, countDenied(nil, plain))
}
