package sstable

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/blocks"
	"github.com/sievedb/sievedb/internal/test/itertest"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/internal/test/testseed"
)

// withSeparators makes the separators of the index of r those that change returns for the entries, and reports whether
// that is an index which a table can have.
func withSeparators(t *testing.T, r *Reader, change func(i int, old []byte) []byte) bool {
	t.Helper()
	old, _, err := r.loadIndex()
	require.NoError(t, err)
	var list blocks.Builder
	for i := range old.Len() {
		if addBlock(&list, r.cmp, change(i, old.Separator(i)), old.Handle(i).Append(nil), r.limit) != nil {
			return false
		}
	}
	l, ok := list.List(r.cmp)
	require.True(t, ok)
	r.setIndex(&index{List: l})
	return true
}

// lookupFault walks through a table and returns the first error of CheckLookup, and how many entries it walked.
func lookupFault(t *testing.T, r *Reader) (entries int, err error) {
	t.Helper()
	var lk Lookup
	defer lk.Release()
	it, nerr := r.NewIter(IterOptions{NoFillCache: true, ReadAhead: 1 << 16})
	require.NoError(t, nerr)
	defer it.Close()
	for ok := it.First(); ok && err == nil; ok = it.Next() {
		err = it.CheckLookup(&lk)
		entries++
	}
	require.NoError(t, it.Err())
	return entries, err
}

// CheckLookup searches for few entries, and yet it finds exactly the indexes by which a lookup of any entry fails.
func TestCheckLookupFindsEveryWrongIndex(t *testing.T) {
	seed := testseed.Statistical(t)
	rnd := rand.New(rand.NewPCG(seed, 30))
	wrong, right := 0, 0
	for range 400 {
		es := slices.CompactFunc(trickyEntries(rnd, base.Bytewise, 20+rnd.IntN(40)), func(a, b itertest.Entry) bool {
			return base.SameVersion(base.Bytewise, a.Key, b.Key) // of two such entries, lookups find the first
		})
		o := WriterOptions{BlockSize: 64 + rnd.IntN(300), BlockRestartInterval: 1 + rnd.IntN(20)}
		data := buildTable(t, o, es)
		r := result.Of(Open(&memFile{data: data}, ReaderOptions{Cache: newCache()}))(t)
		defer r.Close()
		at := rnd.IntN(1 + rnd.IntN(8))
		if !withSeparators(t, r, func(i int, old []byte) []byte {
			if i != at {
				return old
			}
			return es[rnd.IntN(len(es))].Key
		}) {
			continue
		}
		lost := 0
		for _, e := range es {
			res, err := get(r, string(base.UserKey(e.Key)), base.Trailer(e.Key)>>8)
			require.NoError(t, err)
			if !res.Found || res.Trailer != base.Trailer(e.Key) {
				lost++
			}
		}
		_, err := lookupFault(t, r)
		if lost > 0 {
			wrong++
			require.ErrorIs(t, err, errNotFoundAgain, "%d keys are lost", lost)
		} else {
			right++
			require.NoError(t, err)
		}
	}
	t.Logf("%d wrong indexes, %d right ones", wrong, right)
	require.Greater(t, wrong, 20)
	require.Greater(t, right, 20)
}

// The bug: if the index leads to an earlier block, from which the lookup goes on to the right one, CheckLookup searched
// in the earlier block too. A table can have a million such keys, after a block with one restart point.
func TestABlockBeforeTheRightOneIsNotSearchedForEachKey(t *testing.T) {
	watch(t, "a check")
	const before, after = 1_000_000, 40_000 // would take ten minutes
	blocks := [2]blockWriter{{interval: before}, {interval: 1}}
	for i := range before {
		blocks[0].add(base.AppendInternalKey(nil, []byte("a"), uint64(before-i), base.KindSet), nil)
	}
	for i := range after {
		blocks[1].add(base.AppendInternalKey(nil, []byte("k"), uint64(after+9-i), base.KindSet), nil)
	}
	last := base.AppendInternalKey(nil, []byte("z"), 1, base.KindSet)
	blocks[1].add(last, nil)
	data := tableByHand(t, WriterOptions{}, func(w *Writer) {
		listBlock(t, w, blocks[0].finish(), Zstd, base.AppendInternalKey(nil, []byte("k"), 5, base.KindSet))
		listBlock(t, w, blocks[1].finish(), Zstd, last)
	})
	r, _ := openTable(t, data, ReaderOptions{Cache: newCache()})
	entries, err := lookupFault(t, r)
	require.NoError(t, err, "lookups go on to the second block")
	require.Equal(t, before+after+1, entries)
	res := result.Of(get(r, "k", 100))(t)
	require.True(t, res.Found)
}
