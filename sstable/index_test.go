package sstable

import (
	"fmt"
	"math/rand/v2"
	"sort"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
)

// indexOf returns an index with these separators, which must ascend.
func indexOf(t *testing.T, separators [][]byte) *index {
	ix := &index{keyStarts: []uint32{0}}
	for i, sep := range separators {
		value := handle{Offset: uint64(i) * 10, Size: 5}.Append(nil)
		require.NoError(t, ix.add(base.Bytewise, sep, value, 1<<20))
	}
	ix.makePrefixes()
	return ix
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

// If keys are counters, the last separator of an index shares nothing with the others
// ("1"). That once made all prefixes "00000000", and each lookup compared whole keys.
func TestAShortLastSeparatorKeepsOtherPrefixesDistinct(t *testing.T) {
	var separators, targets [][]byte
	for i := range 100 {
		separators = append(separators, ikey(fmt.Sprintf("%016d", 7*i), 1, base.KindSet))
	}
	separators[99] = base.InternalSuccessor(base.Bytewise, nil, separators[99])
	require.Equal(t, "1", string(base.UserKey(separators[99])))
	for i := range 800 {
		targets = append(targets, ikey(fmt.Sprintf("%016d", i), base.MaxSeq, base.KindSeek))
	}
	for _, user := range []string{"", "0", "00000000000001", "0000000000001", "000000000000\xff", "1", "1\x00", "2"} {
		targets = append(targets, ikey(user, base.MaxSeq, base.KindSeek))
	}
	requireFinds(t, separators, targets)
	ix := indexOf(t, separators)
	for i := 1; i < ix.n; i++ {
		require.Less(t, ix.prefixes[i-1], ix.prefixes[i])
	}
}
