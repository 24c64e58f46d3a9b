package rangefilter

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func numberedKeys(n int) (keys [][]byte) {
	for i := range n {
		keys = append(keys, binary.BigEndian.AppendUint64(nil, uint64(i)*grafiteMix))
	}
	return keys
}

// requireBitsRecognised makes a filter of keys with that many bits, and requires that SameBits
// recognises them and, if there are enough keys for statistics, rejects the other numbers of bits.
func requireBitsRecognised(t *testing.T, policy func(bits int) Policy, keys [][]byte, bits int, others []int) {
	probe, ok := policy(bits).NewProbe(makeFilter(t, policy(bits), keys))
	require.True(t, ok)
	for _, other := range others {
		same := SameBits(policy(other), probe)
		switch {
		case other == bits:
			require.True(t, same)
		case len(keys) >= 3000:
			require.False(t, same, "%d bits", other)
		}
	}
}

func TestSameBits(t *testing.T) {
	prefix := func(bits int) Policy { return NewPrefix(FixedPrefix(8), bits) }
	grafite := func(bits int) Policy { return NewGrafite(FixedPrefix(0), BigEndian(8), bits) }
	for _, c := range []struct {
		name   string
		policy func(bits int) Policy
		bits   []int
	}{
		{"prefixes", prefix, []int{1, 2, 4, 7, 10, 13, 16, 20, 30}},
		{"numbers", grafite, []int{3, 4, 5, 10, 16, 17, 33, 34}},
	} {
		for _, n := range []int{0, 1, 7, 50, 333, 3000, 30000} {
			keys := numberedKeys(n)
			for _, bits := range c.bits {
				t.Run(fmt.Sprintf("%s, %d keys, %d bits", c.name, n, bits), func(t *testing.T) {
					requireBitsRecognised(t, c.policy, keys, bits, c.bits)
				})
			}
		}
	}
}
