package slot

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/cluster/internal/kv"
)

func TestSlotsAreThoseOfRedis(t *testing.T) {
	for key, want := range map[string]uint16{
		"123456789":            0x31c3, // the check value of CRC-16/XMODEM
		"":                     0,
		"foo":                  12182, // CLUSTER KEYSLOT of redis-server 7.0
		"somekey":              11058, // Redis Cluster Specification and CLUSTER KEYSLOT's page
		"foo{hash_tag}":        2515,
		"{user1000}.following": 3443,
		"{user1000}.followers": 3443,
	} {
		require.Equal(t, want, Of([]byte(key)), key)
	}
}

func TestTags(t *testing.T) {
	for key, want := range map[string]string{
		"{a}b": "a", "x{a}b": "a", "foo{}{bar}": "foo{}{bar}", "foo{{bar}}zap": "{bar", "foo{bar}{zap}": "bar",
		"a}b{c": "a}b{c", "{": "{", "": "", "{}": "{}",
	} {
		require.Equal(t, want, string(Tag([]byte(key))), key)
	}
}

func TestEverySlotHasOneGroup(t *testing.T) {
	for _, groups := range []int{1, 3, 4, 16, 64, 1000} {
		next := 0
		for g := range groups {
			first, last := Range(kv.GroupID(g), groups)
			require.Equal(t, next, int(first))
			require.GreaterOrEqual(t, last, first)
			for s := int(first); s <= int(last); s++ {
				require.Equal(t, kv.GroupID(g), GroupOf(uint16(s), groups))
			}
			next = int(last) + 1
		}
		require.Equal(t, kv.SlotCount, next)
	}
}
