package memtable

import (
	"encoding/binary"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/test/race"
)

// groups cuts n keys into groups of all sizes up to GroupSize.
func groups(rnd *rand.Rand, n int, key func(i int) []byte) [][]Entry {
	var all [][]Entry
	for i := 0; i < n; {
		group := make([]Entry, min(rnd.IntN(GroupSize+1), n-i))
		for j := range group {
			group[j] = Entry{Kind: base.Kind(i % 2), Key: key(i)}
			if group[j].Kind == base.KindSet {
				group[j].Value = binary.LittleEndian.AppendUint32(nil, uint32(i))
			}
			i++
		}
		all = append(all, group)
	}
	return all
}

func TestAddGroupEqualsSeparateAdds(t *testing.T) {
	const n = 20000
	for _, c := range []struct {
		claim string
		key   func(i int) []byte
	}{
		{"in ascending order", func(i int) []byte { return binary.BigEndian.AppendUint32(nil, uint32(i)) }},
		{"in random order", func(i int) []byte { return binary.BigEndian.AppendUint32(nil, uint32(i*7919%n)) }},
		{"with the same key many times", func(i int) []byte { return binary.BigEndian.AppendUint32(nil, uint32(i*7919%100)) }},
	} {
		t.Run(c.claim, func(t *testing.T) {
			grouped, single := New(base.Bytewise, 4<<20), New(base.Bytewise, 4<<20)
			var a, b Inserter
			seq := uint64(1)
			for _, group := range groups(rand.New(rand.NewPCG(3, 5)), n, c.key) {
				require.True(t, grouped.AddGroup(&a, seq, group))
				for i, e := range group {
					require.True(t, single.AddWith(&b, seq+uint64(i), e.Kind, e.Key, e.Value))
				}
				seq += uint64(len(group))
			}
			require.Equal(t, single.Len(), grouped.Len())
			require.Equal(t, single.Tombstones(), grouped.Tombstones())
			it, want := grouped.NewIter(), single.NewIter()
			more := it.First()
			for ok := want.First(); ok; ok = want.Next() {
				require.True(t, more)
				require.Equal(t, want.Key(), it.Key())
				require.Equal(t, want.Value(), it.Value())
				require.True(t, grouped.MayHold(Hash(base.UserKey(it.Key()))))
				more = it.Next()
			}
			require.False(t, more)
		})
	}
}

func TestAGroupThatDoesNotFitIsNotAdded(t *testing.T) {
	m := New(base.Bytewise, 1<<10)
	var ins Inserter
	group := make([]Entry, GroupSize)
	for i := range group {
		group[i] = Entry{Kind: base.KindSet, Key: []byte{byte(i)}, Value: make([]byte, 60)}
	}
	before := m.Size()
	require.False(t, m.AddGroup(&ins, 1, group))
	require.Equal(t, before, m.Size())
	require.Zero(t, m.Len())
	require.True(t, m.AddGroup(&ins, 1, group[:4]), "a part of it has room")
	require.True(t, m.AddGroup(&ins, 5, nil))
	require.Equal(t, 4, m.Len())
	checkList(t, base.Bytewise, m)
}

func TestGroupsOfSeveralWriters(t *testing.T) {
	const writers, n = 4, 4000
	m := New(base.Bytewise, 4<<20)
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			var ins Inserter
			seq := uint64(1 + w*n)
			for _, group := range groups(rand.New(rand.NewPCG(1, uint64(w))), n, func(i int) []byte {
				return binary.BigEndian.AppendUint32(nil, uint32(i*7919%n*writers+w))
			}) {
				if !m.AddGroup(&ins, seq, group) {
					t.Error("there is room")
				}
				seq += uint64(len(group))
			}
		})
	}
	wg.Wait()
	require.Equal(t, writers*n, m.Len())
	checkList(t, base.Bytewise, m)
}

func TestAddGroupAllocatesNothing(t *testing.T) {
	race.SkipAllocations(t)
	m := New(base.Bytewise, 4<<20)
	var ins Inserter
	group := make([]Entry, GroupSize)
	for i := range group {
		group[i] = Entry{Kind: base.KindSet, Key: []byte("key"), Value: []byte("value")}
	}
	seq := uint64(1)
	require.Zero(t, testing.AllocsPerRun(50, func() { // too few for a guide
		m.AddGroup(&ins, seq, group)
		seq += GroupSize
	}))
}
