package memtable

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
)

// rankShapes are kinds of keys that take different paths through ranks.
var rankShapes = []struct {
	name string
	key  func(rnd *rand.Rand, i int) []byte
}{
	{"decimal", func(rnd *rand.Rand, _ int) []byte { return fmt.Appendf(nil, "%016d", rnd.IntN(1_000_000)) }},
	{"uniform", func(rnd *rand.Rand, _ int) []byte { return binary.BigEndian.AppendUint64(nil, rnd.Uint64()) }},
	{"few keys, many versions", func(rnd *rand.Rand, _ int) []byte { return fmt.Appendf(nil, "key%02d", rnd.IntN(50)) }},
	{"equal in the eight bytes that are compared first", func(rnd *rand.Rand, i int) []byte {
		return fmt.Appendf(nil, "%c equal bytes here %06d", 'a'+byte(i%2), rnd.IntN(100_000))
	}},
	{"of every length", func(rnd *rand.Rand, _ int) []byte { return bytes.Repeat([]byte{0xff}, rnd.IntN(40)) }},
	{"in rising runs", func(rnd *rand.Rand, i int) []byte { return fmt.Appendf(nil, "%03d%05d", rnd.IntN(5), i) }},
	{"ascending, then not", func(rnd *rand.Rand, i int) []byte {
		if i > 3000 {
			i = rnd.IntN(i)
		}
		return fmt.Appendf(nil, "%08d", i)
	}},
	{"with a prefix that becomes shorter and shorter", func(rnd *rand.Rand, i int) []byte {
		return append(bytes.Repeat([]byte{'p'}, 40-i/200), fmt.Appendf(nil, "%06d", rnd.IntN(100_000))...)
	}},
}

// requireSameOrder checks that ranks has all nodes in the order of the list, with their levels.
func requireSameOrder(t *testing.T, m *Memtable, r *ranks) {
	var on [topRank + 1]map[uint32]bool
	for level := range on {
		on[level] = map[uint32]bool{}
		for node := m.next(end, level).Load(); node != end; node = m.next(node, level).Load() {
			on[level][node] = true
		}
	}
	node := m.next(end, 0).Load()
	for i, at := range r.sorted {
		l := &r.leaves[at]
		require.Positive(t, l.n)
		require.Equal(t, l.tails[0], r.firsts[i])
		for j, entry := range l.nodes[:l.n] {
			require.Equal(t, node, entry&^levelBits)
			require.Equal(t, m.keyTail(node, len(r.prefix)), l.tails[j])
			level := int(entry & levelBits)
			require.True(t, on[level][node])
			require.True(t, level == topRank || !on[level+1][node])
			node = m.next(node, 0).Load()
		}
	}
	require.EqualValues(t, end, node)
}

func TestRanksHaveTheOrderOfTheList(t *testing.T) {
	const n = 6000
	for _, shape := range rankShapes {
		t.Run(shape.name, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(7, 7))
			m := New(base.Bytewise, 2<<20)
			var ins Inserter
			var want [][]byte
			for i := range n {
				key := shape.key(rnd, i)
				require.True(t, m.AddWith(&ins, uint64(i+1), base.KindSet, key, nil))
				want = append(want, base.AppendInternalKey(nil, key, uint64(i+1), base.KindSet))
				if i == firstGuide*2 && ins.splice.ranks.state == ranksInUse {
					require.Positive(t, m.ranksSize.Load())
					requireSameOrder(t, m, ins.splice.ranks)
				}
			}
			require.Equal(t, shape.name != rankShapes[7].name, ins.splice.ranks.state == ranksInUse)
			if ins.splice.ranks.state == ranksInUse {
				requireSameOrder(t, m, ins.splice.ranks)
			}
			requireEntries(t, m, want)
		})
	}
}

// requireEntries checks that m holds exactly these internal keys.
func requireEntries(t *testing.T, m *Memtable, want [][]byte) {
	t.Helper()
	it := m.NewIter()
	defer it.Close()
	seen := map[string]bool{}
	var last []byte
	for ok := it.First(); ok; ok = it.Next() {
		if last != nil {
			require.Negative(t, base.CompareInternal(base.Bytewise, last, it.Key()))
		}
		last = append(last[:0], it.Key()...)
		seen[string(last)] = true
	}
	require.Len(t, seen, len(want))
	for _, key := range want {
		require.True(t, seen[string(key)])
	}
}

// The ranks do not know the nodes of another writer, whether these are before all keys, after
// them, or lack the prefix of the known keys.
func TestRanksMayMissNodesOfOtherWriters(t *testing.T) {
	rnd := rand.New(rand.NewPCG(8, 8))
	m := New(base.Bytewise, 2<<20)
	var ins Inserter
	var want [][]byte
	for i := range 8000 {
		key := fmt.Appendf(nil, "prefix%08d", rnd.IntN(1_000_000))
		if i%3 == 2 {
			key = key[rnd.IntN(12):]
			require.True(t, m.Add(uint64(i+1), base.KindSet, key, nil))
		} else {
			require.True(t, m.AddWith(&ins, uint64(i+1), base.KindSet, key, nil))
		}
		want = append(want, base.AppendInternalKey(nil, key, uint64(i+1), base.KindSet))
	}
	require.Equal(t, ranksInUse, ins.splice.ranks.state)
	requireEntries(t, m, want)
}

func TestRanksAreGivenUpAtTheirLimit(t *testing.T) {
	rnd := rand.New(rand.NewPCG(9, 9))
	m := New(base.Bytewise, 256<<10)
	var ins Inserter
	var want [][]byte
	for i := 0; ; i++ {
		key := binary.BigEndian.AppendUint32(nil, rnd.Uint32()) // small enough to reach the limit
		if !m.AddWith(&ins, uint64(i+1), base.KindSet, key, nil) {
			break
		}
		want = append(want, base.AppendInternalKey(nil, key, uint64(i+1), base.KindSet))
	}
	require.Equal(t, ranksGivenUp, ins.splice.ranks.state)
	require.LessOrEqual(t, len(ins.splice.ranks.leaves), 256<<10/arenaPerLeafByte/(12*leafSize))
	requireEntries(t, m, want)

	ins.Reset()
	require.Zero(t, m.ranksSize.Load())
	require.Nil(t, ins.m)
	m = New(base.Bytewise, 1<<20)
	for i := range 3000 {
		require.True(t, m.AddWith(&ins, uint64(i+1), base.KindSet, binary.BigEndian.AppendUint64(nil, rnd.Uint64()), nil))
	}
	requireSameOrder(t, m, ins.splice.ranks)
}

// The ranks of one huge memtable were kept for all later, smaller ones.
func TestRanksOfALargerMemtableAreReleased(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	var ins Inserter
	fill := func(capacity int) *Memtable {
		m := New(base.Bytewise, capacity)
		for seq := uint64(1); m.AddWith(&ins, seq, base.KindDelete, fmt.Appendf(nil, "%016d", rnd.Uint64()), nil); seq++ {
		}
		return m
	}
	fill(8 << 20)
	large := ins.splice.ranks.size()
	require.Greater(t, large, 1<<20)
	small := fill(256 << 10)
	require.LessOrEqual(t, ins.splice.ranks.size(), small.Capacity())
	requireSameOrder(t, small, ins.splice.ranks)

	usual := ins.splice.ranks.size()
	leaves := &ins.splice.ranks.leaves[0]
	fill(256 << 10)
	require.InDelta(t, usual, ins.splice.ranks.size(), float64(usual)/2)
	require.Same(t, leaves, &ins.splice.ranks.leaves[0], "memory of the usual size is reused")
}
