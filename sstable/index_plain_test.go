package sstable

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/test/result"
)

// requirePlainAgrees checks that the general walk decodes an index block as ix, nil if it is not sound.
func requirePlainAgrees(t *testing.T, data []byte, ix *index) {
	b, err := newBlock(data, indexPart)
	if err != nil {
		require.Nil(t, ix)
		return
	}
	any, err := decodeAnyEntries(&b, base.Bytewise, 1<<20)
	require.Equal(t, any, ix)
	require.Equal(t, err == nil, ix != nil)
}

// The plain decoder must decode what writers make, or it would not be used, and leave what is not sound to the other,
// which says what is wrong.
func TestThePlainIndexDecoderAgreesWithTheGeneralWalk(t *testing.T) {
	const seed = 3
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, seed))
	for range 200 {
		interval := 1 + rnd.IntN(2)
		w := blockWriter{interval: interval}
		offset := uint64(0)
		es := trickyEntries(rnd, base.Bytewise, 1+rnd.IntN(60))
		for _, e := range es {
			h := handle{Offset: offset, Size: rnd.Uint64N(3000)}
			w.add(e.Key, h.Append(nil))
			offset = h.End()
		}
		data := append([]byte(nil), w.finish()...)
		b := result.Of(newBlock(data, indexPart))(t)
		plain := decodePlain(&b, base.Bytewise, 1<<20)
		require.True(t, plain != nil || interval > 1 && len(es) > 1, "a plain index of %d entries", len(es))
		if plain != nil {
			requirePlainAgrees(t, data, plain)
		}
		for range 20 { // damaged at random
			bad := append([]byte(nil), data...)
			bad[rnd.IntN(len(bad))] ^= 1 << rnd.IntN(8)
			ix, err := decodeIndex(bad, base.Bytewise, 1<<20)
			require.Equal(t, err == nil, ix != nil)
			requirePlainAgrees(t, bad, ix)
		}
	}
}

func TestThePlainIndexDecoderRejectsSeparatorsThatDescend(t *testing.T) {
	key := func(user string, seq uint64) []byte { return ikey(user, seq, base.KindSet) }
	for i, keys := range [][][]byte{
		{key("b", 1), key("a", 1)},
		{key("a", 1), key("a", 2)},
		{key("xxaaaaaaaa1", 1), key("xxaaaaaaaa0", 1), key("xxb", 1)}, // equal prefixes
		{key("xxa", 1), key("xxb", 1), key("a", 1)},                   // the last without the common prefix
		{key("xxa", 1), key("y", 1), key("xxb", 1), key("z", 1)},      // one between others
	} {
		w := blockWriter{interval: 1}
		for j, k := range keys {
			w.add(k, handle{Offset: uint64(10 * j), Size: 5}.Append(nil))
		}
		b := result.Of(newBlock(w.finish(), indexPart))(t)
		require.Nil(t, decodePlain(&b, base.Bytewise, 1<<20), fmt.Sprint("case ", i))
		require.Error(t, result.Err(decodeAnyEntries(&b, base.Bytewise, 1<<20)))
	}
}
