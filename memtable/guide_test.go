package memtable

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/test/itertest"
	"github.com/sievedb/sievedb/internal/test/race"
)

// guidedKeys are kinds of keys. They differ in the common prefix of a guide, in how soon
// after it keys differ, and in whether later keys are unlike earlier ones.
var guidedKeys = []struct {
	name string
	key  func(rnd *rand.Rand, i int) []byte
}{
	{"uniform", func(rnd *rand.Rand, _ int) []byte { return binary.BigEndian.AppendUint64(nil, rnd.Uint64()) }},
	{"decimal, with leading zeros", func(rnd *rand.Rand, _ int) []byte {
		return fmt.Appendf(nil, "%016d", rnd.IntN(100_000))
	}},
	{"of lengths from the common part on", func(rnd *rand.Rand, _ int) []byte {
		return append([]byte("common/"), bytes.Repeat([]byte{byte(rnd.IntN(3))}, rnd.IntN(20))...)
	}},
	{"many versions of few keys", func(rnd *rand.Rand, _ int) []byte { return fmt.Appendf(nil, "key%d", rnd.IntN(5)) }},
	{"equal in eight bytes after the common part", func(rnd *rand.Rand, _ int) []byte {
		return fmt.Appendf(nil, "c%d-alike-in-eight-%03d", rnd.IntN(2), rnd.IntN(1000))
	}},
	{"first with a common part, then without", func(rnd *rand.Rand, i int) []byte {
		prefix := "common/"
		if i > firstGuide*5/4 {
			prefix = []string{"", "c", "common", "common/", "common0", "d"}[rnd.IntN(6)]
		}
		return fmt.Appendf(nil, "%s%x", prefix, rnd.Uint64()>>rnd.IntN(64))
	}},
	{"first equal in eight bytes, then different within them", func(rnd *rand.Rand, i int) []byte {
		if i > firstGuide*5/4 && rnd.IntN(2) == 0 {
			return binary.BigEndian.AppendUint64([]byte("d"), rnd.Uint64())
		}
		return fmt.Appendf(nil, "c%d-alike-in-eight-%d", rnd.IntN(2), rnd.IntN(3))
	}},
	{"descending", func(_ *rand.Rand, i int) []byte { return fmt.Appendf(nil, "%08d", 1e7-i) }},
	{"ascending two by two", func(_ *rand.Rand, i int) []byte { return fmt.Appendf(nil, "%08d", i^1) }},
}

func TestGuidedSearchesFindAllEntries(t *testing.T) {
	race.SkipInShort(t)
	rnd := newRand(t)
	for _, shape := range guidedKeys {
		t.Run(shape.name, func(t *testing.T) {
			const n = 3 * firstGuide
			m := New(base.Bytewise, n*EntrySize(40, 8))
			var ins Inserter
			var records []record
			for i := range n {
				r := record{seq: uint64(i + 1), kind: base.KindSet, key: shape.key(rnd, i), value: []byte{byte(i)}}
				require.True(t, m.AddWith(&ins, r.seq, r.kind, r.key, r.value))
				records = append(records, r)
				if i == n-1 || i == firstGuide*7/5 { // with a new guide and with an old one
					require.NotNil(t, m.guide.Load())
					checkList(t, base.Bytewise, m)
					checkSearches(t, m, records, func() []byte { return shape.key(rnd, rnd.IntN(n)) }, rnd)
				}
			}
		})
	}
}

// checkSearches looks for keys, parts of them, and old versions of them.
func checkSearches(t *testing.T, m *Memtable, records []record, draw func() []byte, rnd *rand.Rand) {
	t.Helper()
	entries := sortedEntries(base.Bytewise, records)
	it := m.NewIter()
	for range 2000 {
		key := draw()
		if rnd.IntN(3) == 0 && len(key) > 0 {
			key = key[:rnd.IntN(len(key))]
		}
		seq := uint64(rnd.IntN(len(records)))
		ikey := base.AppendInternalKey(nil, key, seq, base.KindSeek)
		at, _ := slices.BinarySearchFunc(entries, ikey, func(e itertest.Entry, k []byte) int {
			return base.CompareInternal(base.Bytewise, e.Key, k)
		})
		require.Equal(t, at < len(entries), it.SeekGE(ikey))
		if it.Valid() {
			require.Equal(t, entries[at].Key, it.Key())
		}
		require.Equal(t, at > 0, it.SeekLT(ikey))
		if it.Valid() {
			require.Equal(t, entries[at-1].Key, it.Key())
		}
		value, _, ok := m.Get(key, seq)
		require.Equal(t, at < len(entries) && bytes.Equal(base.UserKey(entries[at].Key), key), ok)
		if ok {
			require.Equal(t, entries[at].Value, value)
		}
	}
}

// For each kind of keys that is not ascending, most searches must be able to use the guide.
//
// The probability of a false alarm is negligible. One in 16 of at least 2,304 nodes is in the
// guide, and a search cannot use it before the first or after the last of these. The
// probability that a quarter of the nodes is outside is below 40 × (15/16)^576, or 10^-14. With
// fewer nodes outside, 400 of 1,000 searches are eleven standard deviations away.
func TestGuidesAreUsed(t *testing.T) {
	rnd := newRand(t)
	for _, shape := range guidedKeys[:2] {
		m := New(base.Bytewise, 4<<20)
		for i := range 3 * firstGuide {
			require.True(t, m.Add(uint64(i+1), base.KindSet, shape.key(rnd, i), nil))
		}
		used := 0
		for range 1000 {
			target := m.newTarget(shape.key(rnd, 0), base.MakeTrailer(base.MaxSeq, base.KindSeek))
			if before, level := m.start(&target); before != end {
				require.Equal(t, guideLevel, level)
				used++
			}
		}
		require.Greater(t, used, 600, shape.name)
	}
}

// A guide is made from the Inserter's ranks, whose prefix an outlier has shortened. Its keys have tails of their own.
func TestAnOutlierLeavesTheGuideUseful(t *testing.T) {
	rnd := newRand(t)
	key := func() []byte { return fmt.Appendf(nil, "a long common prefix %08d", rnd.IntN(1e8)) }
	m := New(base.Bytewise, 4<<20)
	var ins Inserter
	for i := range 8 * firstGuide {
		k := key()
		if i == firstGuide/2 {
			k = []byte("outlier")
		}
		require.True(t, m.AddWith(&ins, uint64(i+1), base.KindSet, k, nil))
	}
	require.Equal(t, ranksInUse, ins.splice.ranks.state)
	g, tails := m.guide.Load(), map[uint64]bool{}
	for _, tail := range g.tails {
		tails[tail] = true
	}
	require.Greater(t, len(g.nodes), 4*firstGuide/16)
	if m.userKey(g.nodes[len(g.nodes)-1])[0] == 'a' { // the outlier is on guideLevel once in 16 times
		require.Greater(t, len(tails), len(g.tails)*9/10)
	}
	checkList(t, base.Bytewise, m)
}

func TestAscendingKeysMakeNoGuide(t *testing.T) {
	m := New(base.Bytewise, 4<<20)
	var ins Inserter
	for i := range 3 * firstGuide {
		require.True(t, m.AddWith(&ins, uint64(i+1), base.KindSet, fmt.Appendf(nil, "%08d", i), nil))
	}
	require.Nil(t, m.guide.Load())
}

func TestResetForgetsTheGuide(t *testing.T) {
	m := New(base.Bytewise, 4<<20)
	for range 2 {
		for i := range 2 * firstGuide {
			require.True(t, m.Add(uint64(i+1), base.KindSet, fmt.Appendf(nil, "%08d", 1e7-i), nil))
		}
		require.NotNil(t, m.guide.Load())
		checkList(t, base.Bytewise, m)
		m.Reset()
		require.Nil(t, m.guide.Load())
		_, _, ok := m.Get([]byte("09999999"), base.MaxSeq)
		require.False(t, ok)
	}
}

func TestOtherOrdersHaveNoGuide(t *testing.T) {
	m := New(reverse, 4<<20)
	addAll(t, m, randomRecords(newRand(t), 3*firstGuide))
	require.Nil(t, m.guide.Load())
}
