package memtable

import (
	"encoding/binary"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/test/race"
)

func TestTheFilterHasNoFalseNegatives(t *testing.T) {
	rnd := newRand(t)
	for _, capacity := range []int{8 << 10, 64 << 10, 1 << 20} {
		for _, cmp := range []*base.Comparer{base.Bytewise, reverse} {
			m := New(cmp, capacity)
			for _, r := range randomRecords(rnd, 20_000) {
				if !m.Add(r.seq, r.kind, r.key, r.value) {
					break
				}
				require.True(t, m.Filtered())
				require.True(t, m.MayHold(Hash(r.key)), "right after Add, also for tombstones")
			}
			for it, ok := m.NewIter(), true; ok; ok = it.Next() {
				if it.Valid() || it.First() {
					require.True(t, m.MayHold(Hash(base.UserKey(it.Key()))), "at any later time")
				}
			}
		}
	}
}

// Two writers repeatedly set bits of the same word at the same time.
func TestConcurrentWritersLoseNoBits(t *testing.T) {
	const rounds, writers, perWriter = 20_000, 2, 4
	key := func(round, w, i int) []byte {
		return binary.BigEndian.AppendUint64(nil, uint64((round*writers+w)*perWriter+i))
	}
	filters := make([]runFilter, rounds)
	for i := range filters {
		filters[i].words = make([]atomic.Uint64, 1)
	}
	var wg sync.WaitGroup
	var arrived atomic.Int64
	for w := range writers {
		wg.Go(func() {
			for round := range filters {
				for arrived.Add(1); arrived.Load() < int64(writers*(round+1)); {
					runtime.Gosched()
				}
				for i := range perWriter {
					e := filters[round].prepare(key(round, w, i))
					e.set()
				}
			}
		})
	}
	wg.Wait()
	for round := range filters {
		for w := range writers {
			for i := range perWriter {
				require.True(t, filters[round].mayHold(Hash(key(round, w, i))))
			}
		}
	}
}

func TestTheFilterHasTheDocumentedFalsePositiveRate(t *testing.T) {
	race.SkipInShort(t)
	cases := []struct {
		name      string
		valueSize int
		most      float64
	}{
		{"entries of 16 + 1000 bytes", 1000, 0.0005},
		{"entries of 16 + 100 bytes", 100, 0.006},
		{"entries of 16 + 16 bytes", 16, 0.055},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			m := New(base.Bytewise, 4<<20)
			value, rnd := make([]byte, c.valueSize), rand.New(rand.NewPCG(1, 2))
			key := make([]byte, 16)
			draw := func(last byte) []byte {
				binary.LittleEndian.PutUint64(key, rnd.Uint64())
				key[15] = last
				return key
			}
			for m.Add(1, base.KindSet, draw(0), value) {
			}
			const probed = 100_000
			passed := 0
			for range probed {
				if m.MayHold(Hash(draw(1))) {
					passed++
				}
			}
			rate := float64(passed) / probed
			bits := 8 * float64(m.FilterSize()) / float64(m.Len())
			t.Logf("%d entries, %.1f bits each, %.3f %% false positives", m.Len(), bits, 100*rate)
			require.Less(t, rate, c.most)
		})
	}
}

func TestAnEmptyMemtableIsNotFiltered(t *testing.T) {
	m := New(base.Bytewise, 64<<10)
	require.True(t, m.Empty())
	require.False(t, m.Filtered())
	require.False(t, New(base.Bytewise, 0).Add(1, base.KindSet, nil, nil), "no room")
	require.True(t, m.Add(1, base.KindDelete, nil, nil))
	require.False(t, m.Empty())
	require.True(t, m.MayHold(Hash(nil)), "the empty key")
	require.False(t, m.MayHold(Hash([]byte("another"))))
}

// A filter over bytes would rule out "KEY" although "key" was added.
func TestAComparerWithInexactEqualityHasNoFilter(t *testing.T) {
	m := New(caseless, 64<<10)
	require.Zero(t, m.FilterSize())
	addAll(t, m, []record{{seq: 1, kind: base.KindSet, key: []byte("key"), value: []byte("v")}})
	require.False(t, m.Empty())
	require.False(t, m.Filtered())
	_, _, ok := m.Get([]byte("KEY"), 1)
	require.True(t, ok)
}

func TestArenaAndFilterFitInTheirTotal(t *testing.T) {
	for total := 4 << 10; total < 4<<20; total += total/50 + 1 {
		m := New(base.Bytewise, ArenaSize(total))
		sum := m.Capacity() + m.FilterSize()
		require.LessOrEqual(t, sum, total)
		require.Greater(t, sum, total-80)
	}
}
