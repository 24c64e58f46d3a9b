package sstable

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
)

func TestForwardSeeksAgreeWithASortedSlice(t *testing.T) {
	rnd := newRand(t)
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
	it := newIter(t, r, IterOptions{})
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
		at = place(base.Bytewise, es, target)
		ok = it.SeekForward(target)
		require.Equal(t, at < len(es), ok)
		if ok {
			require.Equal(t, es[at].Key, it.Key())
			require.Equal(t, es[at].Value, it.Value())
		}
	}
	require.NoError(t, it.Close())
}
