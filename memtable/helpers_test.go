package memtable

import (
	"bytes"
	"flag"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/test/itertest"
)

var seedFlag = flag.Uint64("seed", 0, "seed of the random tests; 0 draws one")

// newRand logs its seed, which can be passed to -seed to repeat a test.
func newRand(t *testing.T) *rand.Rand {
	t.Helper()
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

var (
	reverse = &base.Comparer{
		Name:    "test.Reverse",
		Compare: func(a, b []byte) int { return bytes.Compare(b, a) },
	}
	// caseless calls keys equal whose bytes differ.
	caseless = &base.Comparer{
		Name:         "test.Caseless",
		Compare:      func(a, b []byte) int { return bytes.Compare(bytes.ToLower(a), bytes.ToLower(b)) },
		InexactEqual: true,
	}
	comparers = []*base.Comparer{base.Bytewise, reverse, caseless}
)

// record is an entry that a test adds.
type record struct {
	seq   uint64
	kind  base.Kind
	key   []byte
	value []byte
}

func (r record) internalKey() []byte {
	return base.AppendInternalKey(nil, r.key, r.seq, r.kind)
}

// randomRecords returns n records with sequence numbers 1 to n. They have few distinct keys, so many keys have several
// versions. The keys differ in length, in zeros, and after the eighth and the sixteenth byte.
func randomRecords(rnd *rand.Rand, n int) []record {
	records := make([]record, n)
	for i := range records {
		key := make([]byte, rnd.IntN(4))
		if rnd.IntN(2) == 0 {
			key = make([]byte, rnd.IntN(20))
		}
		for range min(2, len(key)) {
			key[rnd.IntN(len(key))] = "\x00\x01aA\xff"[rnd.IntN(5)]
		}
		records[i] = record{
			seq:   uint64(i + 1),
			kind:  base.Kind(rnd.IntN(2)),
			key:   key,
			value: bytes.Repeat([]byte{byte(i)}, rnd.IntN(12)),
		}
	}
	return records
}

// sortedEntries returns records in cmp's order, as iterators must return them.
func sortedEntries(cmp *base.Comparer, records []record) []itertest.Entry {
	entries := make([]itertest.Entry, len(records))
	for i, r := range records {
		entries[i] = itertest.Entry{Key: r.internalKey(), Value: r.value}
	}
	slices.SortFunc(entries, func(a, b itertest.Entry) int { return base.CompareInternal(cmp, a.Key, b.Key) })
	return entries
}

func addAll(t *testing.T, m *Memtable, records []record) {
	t.Helper()
	for _, r := range records {
		require.True(t, m.Add(r.seq, r.kind, r.key, r.value))
	}
}

// checkList checks the invariants of a memtable without concurrent writes: every level ascends and is part of the level
// below, back links are exact, and entries and bytes are counted exactly.
func checkList(t *testing.T, cmp *base.Comparer, m *Memtable) {
	t.Helper()
	towers := map[uint32]int{}
	for level := range maxHeight {
		var last uint32 = end
		for node := m.next(end, level).Load(); node != end; node = m.next(node, level).Load() {
			require.Equal(t, level, towers[node], "a node on level %d must be on all levels below", level)
			towers[node]++
			if last != end {
				order := base.CompareInternal(cmp, m.internalKey(last), m.internalKey(node))
				require.Negative(t, order, "level %d must ascend", level)
			}
			if level == 0 {
				require.Equal(t, last, m.prev(node).Load(), "the back link is exact")
			} else {
				require.Less(t, level, int(m.height.Load()), "no tower exceeds the list's height")
			}
			last = node
		}
		if level == 0 {
			require.Equal(t, last, m.prev(end).Load(), "the ring is closed")
		}
	}
	size := uint64(headSize)
	for node, height := range towers {
		size += nodeSize(height, int(m.keyLen(node)), int(m.valueLen(node)))
	}
	require.Equal(t, int(size), m.Size())
	require.Equal(t, len(towers), m.Len())
}
