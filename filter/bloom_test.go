package filter

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func le32(i int) []byte { return binary.LittleEndian.AppendUint32(nil, uint32(i)) }

// le32Keys returns the numbers from start on as four bytes each.
func le32Keys(start, n int) [][]byte {
	keys := make([][]byte, n)
	for i := range keys {
		keys[i] = le32(start + i)
	}
	return keys
}

// addAll adds the keys to a generator.
func addAll(g Generator, keys [][]byte) {
	for _, key := range keys {
		g.Add(key)
	}
}

func words(s ...string) [][]byte {
	keys := make([][]byte, len(s))
	for i := range s {
		keys[i] = []byte(s[i])
	}
	return keys
}

// mayMatch queries a filter in all three ways and requires that they agree.
func mayMatch(t testing.TB, p DirectPolicy, key, filter []byte) bool {
	t.Helper()
	plain := p.KeyMayMatch(key, filter)
	if plain != p.NewProbe(filter).HashMayMatch(p.KeyHash(key)) || plain != p.HashMayMatchFilter(p.KeyHash(key), filter) {
		require.Fail(t, "the forms of a query disagree", "key %x, filter %x", key, filter)
	}
	return plain
}

// changed returns filter with another byte at position at.
func changed(filter []byte, at int, b byte) []byte {
	f := bytes.Clone(filter)
	f[at] = b
	return f
}

// requireRuleNothingOut requires that the filters, which are no filters of p, deny nothing, unlike good.
func requireRuleNothingOut(t *testing.T, p interface {
	DirectPolicy
	VersionedPolicy
}, good []byte, filters map[string][]byte) {
	absent := []byte("no such key")
	require.False(t, mayMatch(t, p, absent, good), "the answer can differ")
	require.True(t, p.Understands(good))
	for claim, filter := range filters {
		t.Run(claim, func(t *testing.T) {
			require.True(t, mayMatch(t, p, absent, filter))
			require.False(t, p.Understands(filter))
		})
	}
}

func TestLevelDBFilterByHand(t *testing.T) {
	p := NewBloomPolicy(10)
	require.Equal(t, uint64(0xf795964e), p.KeyHash([]byte("hello")))
	require.Equal(t, uint64(0x42c4e8fc), p.KeyHash([]byte("world")))

	var want [9]byte
	for _, bit := range []int{14, 24, 34, 44, 54, 0, 60, 30, 0, 34, 4, 38} {
		want[bit/8] |= 1 << (bit % 8)
	}
	want[8] = 6
	require.Equal(t, []byte{0x11, 0x40, 0x00, 0x41, 0x44, 0x10, 0x40, 0x10, 0x06}, want[:])
	require.Equal(t, want[:], p.CreateFilter(nil, words("hello", "world")))
}

func TestMalformedBloomFilters(t *testing.T) {
	ones := bytes.Repeat([]byte{0xff}, 8)
	zeros := make([]byte, 8)
	with := func(array []byte, k byte) []byte { return append(bytes.Clone(array), k) }
	for _, c := range []struct {
		name   string
		filter []byte
		want   bool
	}{
		{"nothing at all matches nothing", nil, false},
		{"a lone k matches nothing", []byte{6}, false},
		{"a lone reserved k matches nothing", []byte{31}, false},
		{"one clear byte matches nothing", []byte{0x00, 6}, false},
		{"one full byte matches everything", []byte{0xff, 6}, true},
		{"no hashes match everything", with(zeros, 0), true},
		{"30 hashes are tested: clear bits", with(zeros, 30), false},
		{"30 hashes are tested: set bits", with(ones, 30), true},
		{"31 hashes are reserved and match everything", with(zeros, 31), true},
		{"128 hashes, negative as a signed char, match everything", with(zeros, 128), true},
		{"255 hashes match everything", with(zeros, 255), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, key := range []string{"", "hello", "\xff\xff\xff"} {
				require.Equal(t, c.want, mayMatch(t, BloomPolicy{}, []byte(key), c.filter))
			}
		})
	}
}

func TestCreateFilterAppends(t *testing.T) {
	p := NewBloomPolicy(10)
	keys := words("hello", "world")
	filter := p.CreateFilter(nil, keys)

	t.Run("after the existing bytes, into a new array if there is no room", func(t *testing.T) {
		dst := []byte("head")
		got := p.CreateFilter(dst[:4:4], keys)
		require.Equal(t, append([]byte("head"), filter...), got)
		require.Equal(t, "head", string(dst))
	})
	t.Run("into spare capacity, which it clears first", func(t *testing.T) {
		room := bytes.Repeat([]byte{0xee}, 4+len(filter)+3)
		got := p.CreateFilter(room[:4], keys)
		require.Equal(t, append([]byte{0xee, 0xee, 0xee, 0xee}, filter...), got)
		require.Same(t, &room[0], &got[0])
		require.Equal(t, []byte{0xee, 0xee, 0xee}, room[4+len(filter):], "bytes after the filter")
	})
	t.Run("a generator does the same", func(t *testing.T) {
		g := p.NewGenerator()
		addAll(g, keys)
		room := bytes.Repeat([]byte{0xee}, 4+len(filter)+3)
		got := g.AppendFilter(room[:4])
		require.Equal(t, append([]byte{0xee, 0xee, 0xee, 0xee}, filter...), got)
		require.Same(t, &room[0], &got[0])
	})
}

func TestGeneratorsMakeTheSameFiltersAsCreateFilter(t *testing.T) {
	for _, bits := range []int{1, 5, 10, 16, 20, 44} {
		for _, p := range []BloomPolicy{NewBloomPolicy(bits), NewCacheLineBloomPolicy(bits)} {
			g := p.NewGenerator().(CheckedGenerator)
			for _, n := range []int{0, 1, 2, 6, 7, 1000, 36, 5000, 0} { // the same generator throughout
				fill := func() {
					key := make([]byte, 0, 4)
					for i := range n {
						key = binary.LittleEndian.AppendUint32(key[:0], uint32(i)) // overwritten between Adds
						g.Add(key)
						require.Equal(t, i+1, g.Len())
					}
				}
				want := p.CreateFilter([]byte("front"), le32Keys(0, n))
				fill()
				require.Equal(t, want, g.AppendFilter([]byte("front")), "%d keys, %d bits", n, bits)
				require.Zero(t, g.Len(), "it forgets the keys")
				fill()
				got, denied := g.AppendChecked([]byte("front"))
				require.Zero(t, denied)
				require.Equal(t, want, got, "%d keys, %d bits, checked", n, bits)
				require.Zero(t, g.Len())
			}
		}
	}
}

func TestDuplicateKeysUseSpaceButSetNoBits(t *testing.T) {
	keys := words("a", "a", "a", "a", "a", "a", "a")
	filter := BloomPolicy{}.CreateFilter(nil, keys)
	require.Len(t, filter, 9+1, "70 bits in nine bytes, and k")
	require.True(t, mayMatch(t, BloomPolicy{}, []byte("a"), filter))
}

func TestBloomPoliciesAreValues(t *testing.T) {
	require.Equal(t, "leveldb.BuiltinBloomFilter2", BloomPolicy{}.Name())
	require.True(t, NewBloomPolicy(DefaultBitsPerKey) == BloomPolicy{}, "the zero value is the default")
	twelve, again := NewBloomPolicy(12), NewBloomPolicy(12)
	require.True(t, twelve == again)
	require.False(t, twelve == NewBloomPolicy(13))
	require.True(t, Policy(twelve) == Policy(again), "also as a Policy")
	require.False(t, Policy(BloomPolicy{}) == None)
	for _, c := range []struct{ asked, got int }{
		{-1 << 31, 1}, {-1, 1}, {0, 1}, {1, 1}, {9, 9}, {10, 10}, {11, 11},
		{100, 100}, {101, 100}, {256, 100}, {1<<31 - 1, 100},
	} {
		require.Equal(t, c.got, NewBloomPolicy(c.asked).BitsPerKey(), "%d bits per key", c.asked)
	}
}

func TestNoneRulesOutNothingAndWritesNothing(t *testing.T) {
	require.Equal(t, "none", None.Name())
	require.Equal(t, "head", string(None.CreateFilter([]byte("head"), words("a"))))
	require.True(t, None.KeyMayMatch([]byte("a"), nil))
	require.True(t, None.KeyMayMatch(nil, []byte{0, 6}))
}

// The largest filter has maxBloomBytes; more keys get fewer bits each.
func TestFiltersStayBelow2To32Bits(t *testing.T) {
	const most = uint64(1)<<32 - 8
	for _, c := range []struct {
		keys  uint64
		bits  int
		bytes uint64
		k     int
	}{
		{0, 10, 8, 6},
		{6, 10, 8, 6},
		{7, 10, 9, 6},
		{429_496_728, 10, 536_870_910, 6},
		{429_496_729, 10, most / 8, 6}, // 4,294,967,290 bits, as many bytes as the limit has
		{429_496_730, 10, most / 8, 6}, // 9.99 bits per key: k of 9, which is 6 too
		{1 << 30, 10, most / 8, 2},     // slightly less than 4 bits per key
		{1 << 32, 10, most / 8, 1},
		{1<<64 - 1, 100, most / 8, 1},
		{1 << 60, 1, most / 8, 1},
	} {
		t.Run(fmt.Sprintf("keys=%d/bits=%d", c.keys, c.bits), func(t *testing.T) {
			bytes, k := bloomShape(c.keys, c.bits)
			require.Equal(t, c.bytes, bytes)
			require.Equal(t, c.k, k)
			require.LessOrEqual(t, bytes, uint64(maxBloomBytes))
		})
	}
	require.Equal(t, most, uint64(maxBloomBytes)*8)
}
