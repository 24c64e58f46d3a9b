package memtable

import (
	"fmt"
	"testing"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/stretchr/testify/require"
)

func TestAResetMemtableIsLikeANewOne(t *testing.T) {
	for _, capacity := range []int{0, 4 << 10, 64 << 10} {
		m, fresh := New(base.Bytewise, capacity), New(base.Bytewise, capacity)
		for round := range 3 {
			key := func(i int) []byte { return fmt.Appendf(nil, "key%d of round %d", i*7919%1000, round) }
			for i := 0; m.Add(uint64(i), base.KindSet, key(i), []byte("value")); i++ {
			}
			m.Reset()
			require.Equal(t, fresh.Size(), m.Size())
			require.Equal(t, fresh.Capacity(), m.Capacity())
			require.Zero(t, m.Len())
			_, _, ok := m.Get([]byte("key0 of round 0"), base.MaxSeq)
			require.False(t, ok)
			it := m.NewIter()
			require.False(t, it.First())
			require.False(t, it.Last())
			require.NoError(t, it.Close())
		}
		if capacity == 0 {
			continue
		}
		for i := range 20 {
			require.True(t, m.Add(uint64(i), base.KindSet, fmt.Appendf(nil, "%02d", i), nil))
		}
		it := m.NewIter()
		n := 0
		for ok := it.First(); ok; ok = it.Next() {
			require.Equal(t, fmt.Sprintf("%02d", n), string(base.UserKey(it.Key())))
			n++
		}
		require.Equal(t, 20, n)
		require.NoError(t, it.Close())
	}
}

func TestATouchedMemtableIsLikeANewOne(t *testing.T) {
	for _, capacity := range []int{0, 1 << 10, 4<<10 + 4, 64 << 10} {
		m, fresh := New(base.Bytewise, capacity), New(base.Bytewise, capacity)
		m.Touch()
		require.Equal(t, fresh.Size(), m.Size())
		require.Equal(t, fresh.Capacity(), m.Capacity())
		n := 0
		for m.Add(uint64(n), base.KindSet, fmt.Appendf(nil, "%05d", n*7919%99991), []byte("value")) {
			n++
		}
		require.Equal(t, n, m.Len())
		it := m.NewIter()
		for ok := it.First(); ok; ok = it.Next() {
			n--
		}
		require.NoError(t, it.Close())
		require.Zero(t, n)
	}
}
