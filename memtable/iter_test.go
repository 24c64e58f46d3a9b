package memtable

import (
	"testing"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/test/itertest"
	"github.com/stretchr/testify/require"
)

func TestIterConformance(t *testing.T) {
	for _, cmp := range comparers {
		t.Run(cmp.Name, func(t *testing.T) {
			rnd := newRand(t)
			for _, n := range []int{0, 1, 2, 500} {
				m := New(cmp, 1<<20)
				records := randomRecords(rnd, n)
				addAll(t, m, records)
				itertest.Run(t, cmp, sortedEntries(cmp, records), rnd.Uint64(), func() base.Iterator { return m.NewIter() })
			}
		})
	}
}

func TestIterSeesLaterEntries(t *testing.T) {
	m := New(base.Bytewise, 1<<12)
	it := m.NewIter()
	require.False(t, it.First())
	addAll(t, m, []record{{1, base.KindSet, []byte("b"), nil}})
	require.True(t, it.First())
	key := it.Key()
	addAll(t, m, []record{{2, base.KindSet, []byte("a"), nil}, {3, base.KindSet, []byte("c"), nil}})
	require.True(t, it.Next())
	require.Equal(t, "c", string(base.UserKey(it.Key())))
	require.True(t, it.Prev())
	require.True(t, it.Prev())
	require.Equal(t, "a", string(base.UserKey(it.Key())))
	require.Equal(t, "b", string(base.UserKey(key)), "slices stay valid after movements")
	require.NoError(t, it.Close())
	require.False(t, it.Valid())
}

// Prev finds the entry right before, although the back link still points to an
// earlier one, as it does while an insertion between the two is under way.
func TestPrevWithAStaleBackLink(t *testing.T) {
	m := New(base.Bytewise, 1<<12)
	addAll(t, m, []record{
		{1, base.KindSet, []byte("a"), nil}, {2, base.KindSet, []byte("b"), nil},
		{3, base.KindSet, []byte("c"), nil}, {4, base.KindSet, []byte("d"), nil},
	})
	a := m.next(end, 0).Load()
	target := m.newTarget([]byte("d"), base.MakeTrailer(4, base.KindSet))
	_, d := m.search(&target)
	m.prev(d).Store(a)
	m.prev(end).Store(end)

	it := m.NewIter()
	var got string
	for ok := it.Last(); ok; ok = it.Prev() {
		got += string(base.UserKey(it.Key()))
	}
	require.Equal(t, "dcba", got)
}
