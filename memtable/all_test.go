package memtable

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/test/itertest"
)

// allOf returns the first entries that All yields, at most limit of them.
func allOf(m *Memtable, limit int) (entries []itertest.Entry) {
	for ikey, value := range m.All() {
		entries = append(entries, itertest.Entry{Key: ikey, Value: value})
		if len(entries) == limit {
			break
		}
	}
	return entries
}

func TestAllYieldsTheEntriesOfAnIter(t *testing.T) {
	for _, cmp := range comparers {
		for _, n := range []int{0, 1, 2, 15, 500, 5000} {
			t.Run(fmt.Sprintf("%s/entries=%d", cmp.Name, n), func(t *testing.T) {
				m := New(cmp, 1<<20)
				addAll(t, m, randomRecords(newRand(t), n))
				var want []itertest.Entry
				it := m.NewIter()
				for ok := it.First(); ok; ok = it.Next() {
					want = append(want, itertest.Entry{Key: it.Key(), Value: it.Value()})
				}
				require.Len(t, want, n)
				require.Equal(t, want, allOf(m, n+1))
			})
		}
	}
}

func TestAllHandlesEveryInsertionOrderAndStopsEarly(t *testing.T) {
	const n = 2000
	rnd := newRand(t)
	orders := map[string][]int{"random": rnd.Perm(n)}
	for i := range n {
		orders["ascending"] = append(orders["ascending"], i)
		orders["descending"] = append(orders["descending"], n-1-i)
		// Some groups of stretches ascend and others do not.
		orders["half ascending"] = append(orders["half ascending"], i)
	}
	half := orders["half ascending"][n/2:]
	rnd.Shuffle(len(half), func(i, j int) { half[i], half[j] = half[j], half[i] })
	for name, numbers := range orders {
		t.Run(name, func(t *testing.T) {
			m := New(base.Bytewise, n*EntrySize(8, 200))
			for i, number := range numbers {
				value := make([]byte, number%200)
				key := binary.BigEndian.AppendUint64(nil, uint64(number))
				require.True(t, m.Add(uint64(i+1), base.KindSet, key, value))
			}
			all := allOf(m, n+1)
			require.Len(t, all, n)
			for i, e := range all {
				require.Equal(t, uint64(i), binary.BigEndian.Uint64(e.Key))
				require.Len(t, e.Value, i%200)
			}
			for _, limit := range []int{1, 2, 17, n / 2, n - 1} {
				require.Equal(t, all[:limit], allOf(m, limit))
			}
		})
	}
}

func TestAllDuringWritesYieldsEveryEarlierEntry(t *testing.T) {
	const n = 20_000
	var keys [][]byte
	for _, i := range newRand(t).Perm(n) {
		keys = append(keys, binary.BigEndian.AppendUint64(nil, uint64(i)))
	}
	s := newShared(keys)
	var adding sync.WaitGroup
	var done atomic.Bool
	for w := range writers {
		adding.Go(func() { s.write(t, w) })
	}
	go func() {
		adding.Wait()
		done.Store(true)
	}()
	for last := false; !last; {
		last = done.Load()
		_, before := s.published()
		entries := allOf(s.m, n+1)
		require.GreaterOrEqual(t, len(entries), before)
		require.True(t, slices.IsSortedFunc(entries, func(a, b itertest.Entry) int {
			return base.CompareInternal(base.Bytewise, a.Key, b.Key)
		}))
		for _, e := range entries {
			require.Equal(t, valueOf(base.UserKey(e.Key)), e.Value)
		}
	}
	require.Len(t, allOf(s.m, n+1), n)
}
