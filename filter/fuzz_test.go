package filter

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzBloomReader queries arbitrary bytes as filters: there is no panic, and both forms of a
// query agree (mayMatch checks that).
func FuzzBloomReader(f *testing.F) {
	f.Add([]byte{}, []byte("hello"))
	f.Add([]byte{6}, []byte("hello"))
	f.Add([]byte{0xff, 30}, []byte{})
	f.Add([]byte{0xff, 0xff, 31}, []byte("hello"))
	f.Add([]byte{0x00, 0}, []byte("hello"))
	f.Add([]byte{0x11, 0x40, 0x00, 0x41, 0x44, 0x10, 0x40, 0x10, 0x06}, []byte("world"))
	f.Add(append(bytes.Repeat([]byte{0xff}, 1000), 29), []byte("\xff\x80"))
	f.Add(NewCacheLineBloomPolicy(10).CreateFilter(nil, words("hello", "world")), []byte("world"))
	f.Add(append(make([]byte, 128), 30, 1), []byte("world"))
	f.Add(append(make([]byte, 127), 6, 1), []byte("world"))
	f.Add(append(make([]byte, 64), 255, 1), []byte("world"))
	f.Add(append(make([]byte, 64), 6, 2), []byte("world"))
	f.Fuzz(func(t *testing.T, filter, key []byte) {
		before := bytes.Clone(filter)
		got := mayMatch(t, BloomPolicy{}, key, filter)
		require.Equal(t, got, mayMatch(t, NewBloomPolicy(30), key, filter), "the reader's bits must not matter")
		lines := NewCacheLineBloomPolicy(10)
		may := mayMatch(t, lines, key, filter)
		require.Equal(t, may, mayMatch(t, NewDualBloomPolicy(30), key, filter), "the reader's bits must not matter")
		require.True(t, may || lines.Understands(filter), "only filters of a known form rule a key out")
		require.True(t, bytes.Equal(before, filter), "a query must not change the filter")
	})
}

// FuzzBloomKeys makes a filter of arbitrary keys, cut from data at each sep, and queries each of them.
func FuzzBloomKeys(f *testing.F) {
	f.Add([]byte("hello world"), byte(' '), 10)
	f.Add([]byte{}, byte(0), 1)
	f.Add(bytes.Repeat([]byte{0x80, 0xff, 0}, 50), byte(0), 44)
	f.Add([]byte("aaaaaaaa"), byte('b'), -5)
	f.Fuzz(func(t *testing.T, data []byte, sep byte, bitsPerKey int) {
		keys := bytes.Split(data, []byte{sep})
		for _, p := range []BloomPolicy{NewBloomPolicy(bitsPerKey), NewCacheLineBloomPolicy(bitsPerKey)} {
			filter := p.CreateFilter([]byte("head"), keys)
			require.Equal(t, "head", string(filter[:4]))
			filter = filter[4:]
			g := p.NewGenerator()
			for _, key := range keys {
				g.Add(key)
				require.True(t, mayMatch(t, p, key, filter))
			}
			made, denied := g.(CheckedGenerator).AppendChecked(nil)
			require.Equal(t, filter, made)
			require.Zero(t, denied)
		}
	})
}

// FuzzFuseReader queries arbitrary bytes as binary fuse filters: there is no panic, the forms
// of a query agree, and only filters of a known form rule a key out.
func FuzzFuseReader(f *testing.F) {
	f.Add([]byte{}, []byte("hello"))
	f.Add([]byte{0, 0, 1}, []byte("hello"))
	f.Add([]byte{0xf3, 0x48, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1}, []byte("world"))
	f.Add(append(make([]byte, 4), 255, 0, 1), []byte{})
	f.Add(append(make([]byte, 4<<16), 0, 16, 1), []byte("world"))
	f.Add(append(make([]byte, 3<<4), 0, 4, 1), []byte("world"))
	f.Add(append(make([]byte, 64), 0, 200, 1), []byte("world"))
	f.Add(append(make([]byte, 64), 0, 4, 2), []byte("world"))
	f.Add(append(make([]byte, 7*8), 0, 4, 7, 2), []byte("world"))
	f.Add(append(make([]byte, 7*8), 255, 0, 7, 2), []byte("world"))
	f.Add(append(make([]byte, 16*8), 0, 3, 16, 2), []byte{})
	f.Add(append(make([]byte, 4), 0, 3, 1, 2), []byte("hello"))
	f.Add([]byte{0, 0, 7, 2}, []byte("hello"))
	f.Add(NewFusePolicy(5).CreateFilter(nil, le32Keys(0, 200)), []byte("hello"))
	f.Fuzz(func(t *testing.T, filter, key []byte) {
		before := bytes.Clone(filter)
		may := mayMatchFuse(t, key, filter)
		require.True(t, may || FusePolicy{}.Understands(filter))
		require.True(t, bytes.Equal(before, filter), "a query must not change the filter")
	})
}

// FuzzFuseHashes makes filters of arbitrary hashes, eight bytes each, including hashes chosen by an adversary.
func FuzzFuseHashes(f *testing.F) {
	f.Add([]byte{})
	f.Add(bytes.Repeat([]byte{7}, 8*300))
	f.Add(NewCacheLineBloomPolicy(20).CreateFilter(nil, le32Keys(0, 200)))
	f.Fuzz(func(t *testing.T, data []byte) {
		g := fuseGenerator{slotBits: 1 + len(data)%MaxFuseBits}
		for ; len(data) >= 8; data = data[8:] {
			g.hashes = append(g.hashes, binary.LittleEndian.Uint64(data))
		}
		hashes := slices.Clone(g.hashes)
		filter, denied := g.AppendChecked(nil)
		require.Zero(t, denied)
		require.Zero(t, countDeniedByFuse(filter, hashes))
		require.LessOrEqual(t, len(filter), 2*int(NewFusePolicy(g.slotBits).FilterSize(uint64(len(hashes))))+64)
	})
}
