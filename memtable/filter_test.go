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
		filters[i].init(1)
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
					filters[round].set(&e, key(round, w, i))
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

// Keys are added before lookups make the filter, meanwhile, and later.
func TestAnOmittedFilterGetsAllKeys(t *testing.T) {
	rounds := 100
	if race.Enabled {
		rounds = 20
	}
	key := func(i int) []byte { return binary.BigEndian.AppendUint32(nil, uint32(i)*2654435761) }
	for round := range rounds {
		m := New(base.Bytewise, 1<<20)
		m.OmitFilter()
		n := round * 20
		add := func(from, to int) {
			for i := from; i < to; i++ {
				if !m.Add(uint64(i), base.KindSet, key(i), nil) {
					panic("no room")
				}
			}
		}
		add(0, n)
		require.False(t, m.Filtered())
		var wg sync.WaitGroup
		var added atomic.Bool
		for range 2 {
			wg.Go(func() {
				for last := false; !m.Filtered() && !last; runtime.Gosched() {
					last = added.Load() && round%2 == 0
					m.ExtendFilter()
				}
			})
		}
		wg.Go(func() { add(n, 2000); added.Store(true) })
		wg.Go(func() {
			ins, group := new(Inserter), make([]Entry, GroupSize)
			for i := 2000; i < 4000; i += len(group) {
				for j := range group {
					group[j] = Entry{Kind: base.KindSet, Key: key(i + j)}
				}
				if !m.AddGroup(ins, uint64(i), group) {
					panic("no room")
				}
			}
		})
		wg.Wait()
		for extended := 0; !m.Filtered(); extended++ {
			require.LessOrEqual(t, extended, 4000/filterStretch)
			m.ExtendFilter()
		}
		add(4000, 5000)
		for i := range 5000 {
			require.True(t, m.MayHold(Hash(key(i))), "key %d", i)
		}
	}
}

// A Reset in the middle of the walk leaves nothing to enter.
func TestAFilterThatLookupsHaveBegunIsWholeAfterReset(t *testing.T) {
	key := func(i int) []byte { return binary.BigEndian.AppendUint32(nil, uint32(i)) }
	m := New(base.Bytewise, 64<<10)
	fill := func(from, to int) {
		for i := from; i < to; i++ {
			require.True(t, m.Add(uint64(i), base.KindSet, key(i), nil))
		}
	}
	m.OmitFilter()
	fill(0, 100)
	m.Reset()
	fill(100, 200)
	m.ExtendFilter()
	require.False(t, m.Filtered(), "64 of 100 keys are in it")
	m.Reset()
	fill(200, 300)
	require.True(t, m.Filtered())
	for i := 200; i < 300; i++ {
		require.True(t, m.MayHold(Hash(key(i))))
	}
}

// An insertion that has found the filter omitted stalls, and lookups begin to make it.
func TestAFilterIsNotMadeWithoutAnInsertionThatLeftItsKeyOut(t *testing.T) {
	m := New(base.Bytewise, 1<<12)
	m.OmitFilter()
	addAll(t, m, []record{{1, base.KindSet, []byte("a"), nil}, {2, base.KindSet, []byte("e"), nil}})
	key := []byte("c")
	stalled, s := m.newTarget(key, base.MakeTrailer(3, base.KindSet)), splice{}
	e := groupEntry{filter: m.filter.prepare(key), height: 1}
	s.find(m, &stalled, 1)
	node, ok := m.alloc(nodeSize(1, len(key), 0), 1)
	require.True(t, ok)
	e.node = node
	m.fill(node, stalled.trailer, key, nil)
	m.filter.set(&e.filter, key)
	m.ExtendFilter()
	m.ExtendFilter()
	require.False(t, m.Filtered(), "an insertion without its key is under way")
	require.True(t, m.Add(4, base.KindSet, []byte("d"), nil))
	s.link(m, node, 1, &stalled)
	m.raise(1)
	m.ExtendFilter()
	require.False(t, m.Filtered(), "it may not be over")
	m.entries.Add(1)
	m.ExtendFilter()
	require.True(t, m.Filtered())
	for _, key := range []string{"a", "c", "d", "e"} {
		require.True(t, m.MayHold(Hash([]byte(key))), key)
	}
	require.False(t, m.MayHold(Hash([]byte("b"))))
}

// An insertion that has memory enters its key, if the filter has begun meanwhile.
func TestAnInsertionSeesThatTheFilterBegins(t *testing.T) {
	m := New(base.Bytewise, 1<<12)
	m.OmitFilter()
	e := m.filter.prepare([]byte("c"))
	m.ExtendFilter()
	require.True(t, m.Empty())
	m.filter.set(&e, []byte("c"))
	require.True(t, m.MayHold(Hash([]byte("c"))))
}

// A filter over bytes would rule out "KEY" although "key" was added.
func TestAComparerWithInexactEqualityHasNoFilter(t *testing.T) {
	m := New(caseless, 64<<10)
	require.Zero(t, m.FilterSize())
	addAll(t, m, []record{{seq: 1, kind: base.KindSet, key: []byte("key"), value: []byte("v")}})
	require.False(t, m.Empty())
	require.False(t, m.Filtered())
	m.OmitFilter()
	m.ExtendFilter()
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
