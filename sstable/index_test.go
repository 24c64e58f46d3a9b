package sstable

import (
	"math/rand/v2"
	"sort"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/blocks"
)

// indexOf returns an index with these separators, which must ascend.
func indexOf(t *testing.T, separators [][]byte) *index {
	var list blocks.Builder
	for i, sep := range separators {
		value := handle{Offset: uint64(i) * 10, Size: 5}.Append(nil)
		require.NoError(t, addBlock(&list, base.Bytewise, sep, value, 1<<20))
	}
	l, ok := list.List(base.Bytewise)
	require.True(t, ok)
	return &index{List: l}
}

// requireFinds compares find with a search over whole keys for each target.
func requireFinds(t *testing.T, separators [][]byte, targets [][]byte) {
	ix := indexOf(t, separators)
	for _, target := range targets {
		want := sort.Search(len(separators), func(i int) bool {
			return base.CompareInternal(base.Bytewise, separators[i], target) >= 0
		})
		got := ix.find(base.Bytewise, base.UserKey(target), base.Trailer(target))
		require.Equal(t, want, got, "target %q among %q", target, separators)
	}
}

func TestIndexSearchAgreesWithASearchOverWholeKeys(t *testing.T) {
	const seed = 11
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, seed))
	for range 300 {
		es := trickyEntries(rnd, base.Bytewise, 1+rnd.IntN(60))
		var keys [][]byte
		for _, e := range es {
			keys = append(keys, e.Key)
		}
		separators := append([][]byte(nil), keys[:1+rnd.IntN(len(keys))]...)
		switch last := separators[len(separators)-1]; rnd.IntN(3) {
		case 0:
			separators[len(separators)-1] = base.InternalSuccessor(base.Bytewise, nil, last)
		case 1:
			separators = append(separators, base.InternalSuccessor(base.Bytewise, nil, last))
		}
		for _, sep := range separators {
			keys = append(keys, ikey(string(base.UserKey(sep)), base.MaxSeq, base.KindSeek))
		}
		requireFinds(t, separators, keys)
	}
}
