package memtable

import (
	"bytes"
	"fmt"
	"math"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/test/race"
)

func TestTombstonesAreCounted(t *testing.T) {
	m := New(base.Bytewise, 1<<16)
	for i := range 10 {
		kind := base.KindSet
		if i < 3 {
			kind = base.KindDelete
		}
		require.True(t, m.Add(uint64(i+1), kind, []byte{byte(i)}, nil))
	}
	require.Equal(t, 10, m.Len())
	require.Equal(t, 3, m.Tombstones())
	require.False(t, m.Add(11, base.KindDelete, make([]byte, 1<<17), nil))
	require.Equal(t, 3, m.Tombstones(), "there was no room")
	m.Reset()
	require.Zero(t, m.Tombstones())
}

func TestEmptyMemtable(t *testing.T) {
	m := New(base.Bytewise, 1<<10)
	require.Equal(t, 1<<10, m.Capacity())
	require.Zero(t, m.Len())
	require.Equal(t, headSize, m.Size())
	require.Equal(t, m.Capacity()-m.Size(), m.Available())
	_, _, ok := m.Get(nil, base.MaxSeq)
	require.False(t, ok)
	checkList(t, base.Bytewise, m)
}

// The bytes of the package comment's example.
func TestNodeLayout(t *testing.T) {
	if b := [2]byte{1}; *(*uint16)(unsafe.Pointer(&b)) != 1 {
		t.Log("the links and lengths below are those of a little-endian machine")
		return
	}
	m := New(base.Bytewise, 1<<10)
	require.True(t, m.Add(7, base.KindSet, []byte("key"), []byte("val")))
	node := m.next(end, 0).Load()
	height := (int(node)-keyOffset)/linkSize + 1
	require.Equal(t, []byte{
		0, 0, 0, 0, // next[0]
		0, 0, 0, 0, // prev
		3, 0, 0, 0, // length of the user key
		3, 0, 0, 0, // length of the value
		'k', 'e', 'y', // user key
		1, 7, 0, 0, 0, 0, 0, 0, // trailer
		'v', 'a', 'l', // value
		0, 0, // padding
	}, unsafe.Slice((*byte)(m.at(node, 0)), 32))
	require.Equal(t, headSize+(height-1)*linkSize+32, m.Size())
}

func TestGet(t *testing.T) {
	records := []record{
		{3, base.KindSet, []byte("k"), []byte("three")},
		{5, base.KindDelete, []byte("k"), nil},
		{9, base.KindSet, []byte("k"), []byte{}},
		{base.MaxSeq, base.KindSet, []byte("k"), []byte("last")},
		{4, base.KindSet, []byte("k\x00"), []byte("zero")},
		{6, base.KindSet, nil, []byte("empty key")},
	}
	for _, c := range []struct {
		claim string
		key   string
		seq   uint64
		value string
		kind  base.Kind
		ok    bool
	}{
		{"before the first version there is nothing", "k", 2, "", 0, false},
		{"a version is seen at its own sequence", "k", 3, "three", base.KindSet, true},
		{"a version is seen until the next one", "k", 4, "three", base.KindSet, true},
		{"a tombstone is an answer", "k", 5, "", base.KindDelete, true},
		{"an empty value is a value", "k", 9, "", base.KindSet, true},
		{"the largest sequence is seen", "k", base.MaxSeq, "last", base.KindSet, true},
		{"a zero byte makes another key", "k\x00", base.MaxSeq, "zero", base.KindSet, true},
		{"a prefix of a key is not the key", "k\x00\x00", base.MaxSeq, "", 0, false},
		{"the empty key is a key", "", 6, "empty key", base.KindSet, true},
		{"the empty key has sequence numbers, too", "", 5, "", 0, false},
		{"after the last key there is nothing", "l", base.MaxSeq, "", 0, false},
	} {
		t.Run(c.claim, func(t *testing.T) {
			for _, cmp := range comparers {
				m := New(cmp, 1<<12)
				addAll(t, m, records)
				value, kind, ok := m.Get([]byte(c.key), c.seq)
				require.Equal(t, c.ok, ok, cmp.Name)
				require.Equal(t, c.kind, kind, cmp.Name)
				require.Equal(t, c.value, string(value), cmp.Name)
			}
		})
	}
}

func TestAddCopies(t *testing.T) {
	m := New(base.Bytewise, 1<<10)
	key, value := []byte("key"), []byte("value")
	require.True(t, m.Add(1, base.KindSet, key, value))
	key[0], value[0] = 'x', 'x'
	got, _, ok := m.Get([]byte("key"), 1)
	require.True(t, ok)
	require.Equal(t, "value", string(got))
	require.Equal(t, len(got), cap(got), "an append to the value must not reach the arena")
}

// Every pair of short or nearly equal keys sorts as with bytes.Compare, also across
// the seams at 8 and 16 bytes and with zeros that look like padding.
func TestBytewiseOrder(t *testing.T) {
	var keys [][]byte
	for _, n := range []int{0, 1, 7, 8, 9, 15, 16, 17, 23, 24, 25, 40} {
		for _, c := range []byte{0, 1, 0xff} {
			key := bytes.Repeat([]byte{c}, n)
			keys = append(keys, key)
			if n > 0 {
				for _, at := range []int{0, n / 2, n - 1} {
					other := bytes.Clone(key)
					other[at] ^= 0x80
					keys = append(keys, other)
				}
			}
		}
	}
	for _, a := range keys {
		m := New(base.Bytewise, 1<<10)
		require.True(t, m.Add(5, base.KindSet, a, nil))
		node := m.next(end, 0).Load()
		for _, b := range keys {
			order := bytes.Compare(a, b)
			older, newer := m.newTarget(b, base.MakeTrailer(4, base.KindSet)), m.newTarget(b, base.MakeTrailer(6, base.KindSet))
			require.Equal(t, order <= 0, m.precedes(node, &older), "%x against an older %x", a, b)
			require.Equal(t, order < 0, m.precedes(node, &newer), "%x against a newer %x", a, b)
			before, _ := m.searchLevel(end, end, 0, &older)
			require.Equal(t, order <= 0, before == node, "search for %x among %x", b, a)
			require.Equal(t, order == 0, m.hasKey(node, b))
		}
	}
}

func TestAddUntilFull(t *testing.T) {
	for _, cmp := range comparers {
		for _, with := range []*Inserter{nil, new(Inserter)} {
			t.Run(fmt.Sprintf("%s/inserter=%t", cmp.Name, with != nil), func(t *testing.T) { addUntilFull(t, cmp, with) })
		}
	}
}

// addUntilFull also checks that an entry without room changes nothing, and not the place that an Inserter remembers.
func addUntilFull(t *testing.T, cmp *base.Comparer, with *Inserter) {
	m := New(cmp, 10_003)
	require.Equal(t, 10_000, m.Capacity(), "rounded down to whole words")
	add := m.Add
	if with != nil {
		add = func(seq uint64, kind base.Kind, key, value []byte) bool {
			return m.AddWith(with, seq, kind, key, value)
		}
	}
	var kept []record
	for _, r := range randomRecords(newRand(t), 1000) {
		before, entries, roomy := m.Size(), m.Len(), m.Available() >= EntrySize(len(r.key), len(r.value))
		require.False(t, add(r.seq, r.kind, r.key, make([]byte, 10_000)))
		if !add(r.seq, r.kind, r.key, r.value) {
			require.False(t, roomy, "an entry of EntrySize bytes must fit")
			require.Equal(t, before, m.Size())
			require.Equal(t, entries, m.Len())
			continue
		}
		require.LessOrEqual(t, m.Size()-before, EntrySize(len(r.key), len(r.value)))
		kept = append(kept, r)
	}
	require.Less(t, len(kept), 1000, "the arena must have been filled")
	require.Less(t, m.Available(), EntrySize(20, 12))
	require.LessOrEqual(t, m.Size(), m.Capacity())
	checkList(t, cmp, m)
	for _, r := range kept {
		value, kind, ok := m.Get(r.key, r.seq)
		require.True(t, ok)
		require.Equal(t, r.kind, kind)
		require.Equal(t, string(r.value), string(value))
	}
}

// An empty value that ends with the arena has no byte to point to.
func TestLastByteOfArena(t *testing.T) {
	for _, valueLen := range []int{0, 4} {
		t.Run(fmt.Sprintf("value of %d bytes", valueLen), func(t *testing.T) {
			m := New(base.Bytewise, headSize+int(nodeSize(1, 4, valueLen)))
			for !m.Add(1, base.KindSet, []byte("last"), make([]byte, valueLen)) {
				require.Equal(t, headSize, m.Size(), "only a taller tower does not fit")
			}
			require.Zero(t, m.Available())
			value, _, ok := m.Get([]byte("last"), 1)
			require.True(t, ok)
			require.Len(t, value, valueLen)
			it := m.NewIter()
			require.True(t, it.Last())
			require.Len(t, it.Value(), valueLen)
			require.False(t, m.Add(2, base.KindDelete, nil, nil))
		})
	}
}

func TestCapacityIsClamped(t *testing.T) {
	for _, c := range []struct {
		claim    string
		capacity int
		want     uint32
	}{
		{"negative capacity holds the head", math.MinInt, headSize},
		{"capacity below the head holds the head", headSize - 1, headSize},
		{"capacity is rounded down", headSize + 7, headSize + 4},
		{"ordinary capacity stays", 64 << 20, 64 << 20},
		{"offsets bound the largest capacity", math.MaxInt, uint32(min(uint64(math.MaxInt), math.MaxUint32) &^ 3)},
	} {
		t.Run(c.claim, func(t *testing.T) {
			require.Equal(t, c.want, clampCapacity(c.capacity))
		})
	}
	m := New(base.Bytewise, 0)
	require.False(t, m.Add(1, base.KindDelete, nil, nil))
	require.Zero(t, m.Available())
}

func TestEntrySize(t *testing.T) {
	require.Equal(t, 68, EntrySize(0, 0))
	require.Equal(t, 184, EntrySize(16, 100))
	require.Equal(t, 72, EntrySize(0, 1), "padding counts")
	require.Equal(t, math.MaxInt, EntrySize(math.MaxInt, math.MaxInt), "lengths beyond any slice saturate")
	require.Equal(t, math.MaxInt, EntrySize(math.MaxInt, 0))
}

func TestHeights(t *testing.T) {
	const draws = 1 << 16
	var counts [maxHeight + 1]int
	for range draws {
		counts[randomHeight()]++
	}
	require.Zero(t, counts[0])
	// 3/4 of all towers have height 1, and 3/16 have height 2. Twenty standard deviations on
	// either side make a chance failure rarer than once in 10^80 runs.
	require.InDelta(t, draws*3/4, counts[1], 20*111)
	require.InDelta(t, draws*3/16, counts[2], 20*100)
}

func TestAllocations(t *testing.T) {
	race.SkipAllocations(t)
	for _, cmp := range comparers[:2] {
		t.Run(cmp.Name, func(t *testing.T) {
			m := New(cmp, 1<<20)
			var keys [][]byte
			for i := range 1000 {
				keys = append(keys, fmt.Appendf(nil, "%016d", i))
			}
			value := make([]byte, 100)
			var ins Inserter
			i := 0
			require.Zero(t, testing.AllocsPerRun(400, func() {
				m.Add(1, base.KindSet, keys[i], value)
				m.AddWith(&ins, 2, base.KindDelete, keys[i], nil)
				i++
			}), "Add")
			require.Zero(t, testing.AllocsPerRun(100, func() {
				m.Get(keys[7], 2)
				m.Get(keys[8], 1)
				m.Get(keys[999], base.MaxSeq)
			}), "Get")
			it := m.NewIter()
			ikey := base.AppendInternalKey(nil, keys[100], 2, base.KindSeek)
			require.Zero(t, testing.AllocsPerRun(100, func() {
				for ok := it.First(); ok; ok = it.Next() {
					_, _ = it.Key(), it.Value()
				}
				for ok := it.Last(); ok; ok = it.Prev() {
					_, _ = it.Key(), it.Value()
				}
				it.SeekGE(ikey)
				it.SeekLT(ikey)
			}), "iterator")
		})
	}
}

func TestInserter(t *testing.T) {
	rnd := newRand(t)
	orders := map[string]func(n int) int{
		"ascending":       func(i int) int { return i },
		"descending":      func(i int) int { return 5000 - i },
		"random":          func(int) int { return rnd.IntN(1 << 20) },
		"ascending runs":  func(i int) int { return i%50*1000 + i/50 },
		"outward":         func(i int) int { return 5000 + i*(1-i%2*2) },
		"one key, rising": func(int) int { return 1 },
	}
	for name, key := range orders {
		t.Run(name, func(t *testing.T) {
			m := New(base.Bytewise, 1<<20)
			var ins Inserter
			for i := range 3000 {
				k := fmt.Appendf(nil, "%016d", key(i))
				require.True(t, m.AddWith(&ins, uint64(i+1), base.KindSet, k, nil))
				if i%7 == 0 { // another writer
					require.True(t, m.Add(uint64(i+1), base.KindSet, append(k, byte(i)), nil))
				}
				_, _, ok := m.Get(k, uint64(i+1))
				require.True(t, ok)
			}
			checkList(t, base.Bytewise, m)
		})
	}
}

func TestInserterMovesToAnotherMemtable(t *testing.T) {
	var ins Inserter
	for range 3 {
		m := New(base.Bytewise, 1<<16)
		for i := range 100 {
			require.True(t, m.AddWith(&ins, uint64(i+1), base.KindSet, fmt.Appendf(nil, "%03d", i), nil))
		}
		checkList(t, base.Bytewise, m)
	}
}
