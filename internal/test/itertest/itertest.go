// Package itertest is the conformance test of base.Iterator: one suite that every implementation passes, with a sorted
// slice as the model. Only tests import it.
package itertest

import (
	"math/rand/v2"
	"sort"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
)

// Entry is one entry that the iterator under test must show.
type Entry struct{ Key, Value []byte } // Key is an internal key

// Run checks newIter's iterators against entries, which must be in the order of base.CompareInternal: whole walks in
// both directions, then random walks with seeks to targets at, between and outside the entries. An iterator that has a
// NextDistinct must step to another user key by it, or stay where it is. The seed is printed when a walk fails.
func Run(t *testing.T, cmp *base.Comparer, entries []Entry, seed uint64, newIter func() base.Iterator) {
	t.Helper()
	t.Run("forward", func(t *testing.T) {
		it := newIter()
		i := 0
		for ok := it.First(); ok; ok = it.Next() {
			require.Less(t, i, len(entries), "more entries than were written")
			check(t, it, entries, i)
			i++
		}
		require.NoError(t, it.Close())
		require.Equal(t, len(entries), i)
	})
	t.Run("forward, apart", func(t *testing.T) {
		it := newIter()
		if _, ok := it.(distinctNexter); ok {
			walkDistinct(t, entries, it)
		}
		require.NoError(t, it.Close())
	})
	t.Run("backward", func(t *testing.T) {
		it := newIter()
		i := len(entries) - 1
		for ok := it.Last(); ok; ok = it.Prev() {
			require.GreaterOrEqual(t, i, 0, "more entries than were written")
			check(t, it, entries, i)
			i--
		}
		require.NoError(t, it.Close())
		require.Equal(t, -1, i)
	})
	t.Run("random walk", func(t *testing.T) {
		t.Logf("seed %d", seed)
		walk(t, cmp, entries, rand.New(rand.NewPCG(seed, seed)), newIter())
	})
}

// distinctNexter is an iterator with a step that is taken to another user key only, and
// not always then; otherwise it stays where it is.
type distinctNexter interface{ NextDistinct() bool }

// walkDistinct walks through all, by NextDistinct where it moves.
func walkDistinct(t *testing.T, entries []Entry, it base.Iterator) {
	i := 0
	for ok := it.First(); ok; i++ {
		require.Less(t, i, len(entries), "more entries than were written")
		check(t, it, entries, i)
		if it.(distinctNexter).NextDistinct() {
			require.Less(t, i+1, len(entries))
			require.NotEqual(t, base.UserKey(entries[i].Key), base.UserKey(entries[i+1].Key))
			continue
		}
		check(t, it, entries, i)
		ok = it.Next()
	}
	require.Equal(t, len(entries), i)
}

// walk moves it and the index i together. i is -1 or len(entries) where the iterator is invalid.
func walk(t *testing.T, cmp *base.Comparer, entries []Entry, rnd *rand.Rand, it base.Iterator) {
	n := len(entries)
	i := -1
	apart, _ := it.(distinctNexter)
	require.False(t, it.Valid(), "a new iterator must not be positioned")
	for range 2000 {
		valid := i >= 0 && i < n
		switch op := rnd.IntN(11); {
		case op == 0:
			i = 0
			require.Equal(t, n > 0, it.First())
		case op == 1:
			i = n - 1
			require.Equal(t, n > 0, it.Last())
		case op <= 3:
			target := randomTarget(rnd, entries)
			i = lowerBound(cmp, entries, target)
			require.Equal(t, i < n, it.SeekGE(target))
		case op <= 5:
			target := randomTarget(rnd, entries)
			i = lowerBound(cmp, entries, target) - 1
			require.Equal(t, i >= 0, it.SeekLT(target))
		case op <= 7 && valid:
			i++
			require.Equal(t, i < n, it.Next())
		case op == 10:
			if valid && apart != nil && apart.NextDistinct() {
				i++
				require.Less(t, i, n)
				require.NotEqual(t, base.UserKey(entries[i-1].Key), base.UserKey(entries[i].Key))
			}
		case valid:
			i--
			require.Equal(t, i >= 0, it.Prev())
		}
		if i >= 0 && i < n {
			check(t, it, entries, i)
		} else {
			require.False(t, it.Valid())
			i = -1
		}
	}
	require.NoError(t, it.Err())
	require.NoError(t, it.Close())
	require.NoError(t, it.Close(), "Close may be called more than once")
}

func check(t *testing.T, it base.Iterator, entries []Entry, i int) {
	t.Helper()
	require.True(t, it.Valid())
	require.Equal(t, string(entries[i].Key), string(it.Key()), "key of entry %d", i)
	require.Equal(t, string(entries[i].Value), string(it.Value()), "value of entry %d", i)
}

func lowerBound(cmp *base.Comparer, entries []Entry, target []byte) int {
	return sort.Search(len(entries), func(i int) bool {
		return base.CompareInternal(cmp, entries[i].Key, target) >= 0
	})
}

// randomTarget returns an internal key at, just before, just after or far from an entry.
func randomTarget(rnd *rand.Rand, entries []Entry) []byte {
	if len(entries) == 0 || rnd.IntN(8) == 0 {
		user := make([]byte, rnd.IntN(6))
		for i := range user {
			user[i] = byte(rnd.UintN(256))
		}
		return base.AppendInternalKey(nil, user, rnd.Uint64N(base.MaxSeq), base.KindSeek)
	}
	key := entries[rnd.IntN(len(entries))].Key
	user := append([]byte(nil), base.UserKey(key)...)
	seq, kind := base.SplitTrailer(base.Trailer(key))
	switch rnd.IntN(5) {
	case 0:
		return append([]byte(nil), key...)
	case 1:
		return base.AppendInternalKey(nil, user, base.MaxSeq, base.KindSeek)
	case 2:
		return base.AppendInternalKey(nil, user, 0, base.KindDelete)
	case 3:
		return base.AppendInternalKey(nil, append(user, byte(rnd.UintN(256))), seq, kind)
	}
	return base.AppendInternalKey(nil, user[:rnd.IntN(len(user)+1)], seq, kind)
}
