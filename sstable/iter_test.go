package sstable

import (
	"math/rand/v2"
	"sort"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/test/itertest"
)

func TestIteratorConformsWithBlocksInSlices(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r, _, es := packedTable(t)
	inSlices := 0
	itertest.Run(t, base.Bytewise, es, seed, func() base.Iterator {
		it, err := r.NewIter(IterOptions{})
		require.NoError(t, err)
		for i := range it.ix.n {
			if it.load(i, true) && it.sliced != nil {
				inSlices++
			}
		}
		return it
	})
	require.Greater(t, inSlices, 20)
}

func TestForwardSeeksAgreeWithASortedSlice(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 8))
	sliced, _, es := packedTable(t)
	plain, _ := openTable(t, buildTable(t, WriterOptions{}, es), ReaderOptions{Cache: newCache()})
	for name, r := range map[string]*Reader{"in slices": sliced, "whole": plain} {
		t.Run(name, func(t *testing.T) {
			for range 50 {
				checkSeeksOn(t, r, es, rnd)
			}
		})
	}
}

// checkSeeksOn iterates over r by steps and SeekForward, and compares with es.
func checkSeeksOn(t *testing.T, r *Reader, es entries, rnd *rand.Rand) {
	it, err := r.NewIter(IterOptions{})
	require.NoError(t, err)
	for ok, at := it.First(), 0; ok; {
		user := base.UserKey(es[min(at+rnd.IntN(60), len(es)-1)].Key)
		target := base.AppendInternalKey(nil, user, base.MaxSeq, base.KindSeek)
		if rnd.IntN(4) == 0 {
			target = base.AppendInternalKey(nil, user, 0, base.KindDelete) // after all versions
		}
		if base.CompareInternal(base.Bytewise, it.Key(), target) >= 0 {
			ok, at = it.Next(), at+1
			require.Equal(t, at < len(es), ok)
			continue
		}
		at = sort.Search(len(es), func(i int) bool { return base.CompareInternal(base.Bytewise, es[i].Key, target) >= 0 })
		ok = it.SeekForward(target)
		require.Equal(t, at < len(es), ok)
		if ok {
			require.Equal(t, es[at].Key, it.Key())
			require.Equal(t, es[at].Value, it.Value())
		}
	}
	require.NoError(t, it.Close())
}
