package memtable

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
)

const writers = 4

// shared is a memtable under concurrent insertion. Writer w adds its keys in their order and publishes how many it has
// added, so that a reader knows which entries it must find.
type shared struct {
	m     *Memtable
	keys  [writers][][]byte
	added [writers]atomic.Int64
}

// newShared distributes keys to the writers in turn, so that they contend everywhere.
func newShared(keys [][]byte) *shared {
	s := &shared{m: New(base.Bytewise, len(keys)*EntrySize(16, 8))}
	for i, k := range keys {
		s.keys[i%writers] = append(s.keys[i%writers], k)
	}
	return s
}

// valueOf returns the value of every entry of key, with which readers can detect a torn one.
func valueOf(key []byte) []byte { return key[len(key)-8:] }

func (s *shared) write(t *testing.T, w int) {
	var ins Inserter
	for i, key := range s.keys[w] {
		ok := false
		if w%2 == 0 {
			ok = s.m.AddWith(&ins, uint64(i+1), base.KindSet, key, valueOf(key))
		} else {
			ok = s.m.Add(uint64(i+1), base.KindSet, key, valueOf(key))
		}
		if !assert.True(t, ok) {
			return
		}
		s.added[w].Store(int64(i + 1))
	}
}

// published returns how many entries each writer has acknowledged.
func (s *shared) published() (counts [writers]int, total int) {
	for w := range counts {
		counts[w] = int(s.added[w].Load())
		total += counts[w]
	}
	return counts, total
}

// scan walks the memtable in one direction. It checks the order, the contents, and that
// no entry published before the walk is missing.
func (s *shared) scan(t *testing.T, forward bool) {
	counts, _ := s.published()
	seen := map[string]bool{}
	it := s.m.NewIter()
	start, step, sign := it.First, it.Next, -1
	if !forward {
		start, step, sign = it.Last, it.Prev, +1
	}
	var last []byte
	for ok := start(); ok; ok = step() {
		key := it.Key()
		if last != nil && !assert.Equal(t, sign, base.CompareInternal(base.Bytewise, last, key), "order") {
			return
		}
		user := base.UserKey(key)
		if string(it.Value()) != string(valueOf(user)) {
			assert.Fail(t, "found a value that was never written")
			return
		}
		seen[string(user)] = true
		last = key
	}
	for w, n := range counts {
		for _, key := range s.keys[w][:n] {
			if !assert.True(t, seen[string(key)], "an acknowledged entry is missing") {
				return
			}
		}
	}
}

// look looks for a published entry with Get and with seeks.
func (s *shared) look(t *testing.T, rnd *rand.Rand) {
	w := rnd.IntN(writers)
	n := int(s.added[w].Load())
	if n == 0 {
		return
	}
	i := rnd.IntN(n)
	if rnd.IntN(2) == 0 {
		i = n - 1 // the newest, whose upper links may be the last ones missing
	}
	key := s.keys[w][i]
	assert.True(t, s.m.Filtered() && s.m.MayHold(Hash(key)), "the filter contains an acknowledged entry")
	value, kind, ok := s.m.Get(key, uint64(i+1))
	assert.True(t, ok && kind == base.KindSet && string(value) == string(valueOf(key)),
		"Get of an acknowledged entry")
	_, _, ok = s.m.Get(key, uint64(i))
	assert.False(t, ok, "Get below the entry's sequence")

	it := s.m.NewIter()
	ikey := base.AppendInternalKey(nil, key, uint64(i+1), base.KindSet)
	assert.True(t, it.SeekGE(ikey) && string(it.Key()) == string(ikey), "SeekGE")
	if it.Prev() {
		assert.Negative(t, base.CompareInternal(base.Bytewise, it.Key(), ikey), "Prev")
	}
	if it.SeekLT(ikey) {
		assert.Negative(t, base.CompareInternal(base.Bytewise, it.Key(), ikey), "SeekLT")
		if it.Next() {
			assert.LessOrEqual(t, base.CompareInternal(base.Bytewise, it.Key(), ikey), 0, "Next after SeekLT")
		}
	}
}

// read reads until the writers are done. Readers 0 and 1 scan, forward and backward; the third looks keys up.
func (s *shared) read(t *testing.T, reader int, rnd *rand.Rand, done *atomic.Bool) {
	for !done.Load() && !t.Failed() {
		if reader < 2 {
			s.scan(t, reader == 0)
		} else {
			s.look(t, rnd)
		}
	}
}

func TestConcurrentAddsAndReads(t *testing.T) {
	entries := 8000
	if testing.Short() {
		entries = 2000
	}
	key := func(n uint64) []byte {
		return binary.BigEndian.AppendUint64([]byte("samekeys"), n)
	}
	orders := map[string]func(i int) []byte{
		"ascending":  func(i int) []byte { return key(uint64(i)) },
		"descending": func(i int) []byte { return key(uint64(entries - i)) },
		"random":     func(i int) []byte { return key(uint64(i) * 0x9e3779b97f4a7c15) },
	}
	for name, keyOf := range orders {
		t.Run(name, func(t *testing.T) {
			keys := make([][]byte, entries)
			for i := range keys {
				keys[i] = keyOf(i)
			}
			s := newShared(keys)
			seed := newRand(t).Uint64()

			var writing, reading sync.WaitGroup
			var done atomic.Bool
			for w := range writers {
				writing.Go(func() { s.write(t, w) })
			}
			for r := range 3 {
				reading.Go(func() { s.read(t, r, rand.New(rand.NewPCG(seed, uint64(r))), &done) })
			}
			writing.Wait()
			done.Store(true)
			reading.Wait()

			s.scan(t, true)
			s.scan(t, false)
			checkList(t, base.Bytewise, s.m)
			_, total := s.published()
			require.Equal(t, entries, total)
			require.Equal(t, entries, s.m.Len())
		})
	}
}

// Writers compete for the last free bytes. Together they must use exactly the bytes that they were granted.
func TestConcurrentAddsUntilFull(t *testing.T) {
	m := New(base.Bytewise, 64<<10)
	var accepted atomic.Int64
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range 2000 {
				if m.Add(uint64(i+1), base.KindSet, fmt.Appendf(nil, "%04d-%d", i, w), make([]byte, i%40)) {
					accepted.Add(1)
				}
			}
		})
	}
	wg.Wait()
	require.Less(t, accepted.Load(), int64(writers*2000))
	require.Equal(t, int(accepted.Load()), m.Len())
	require.Less(t, m.Available(), EntrySize(6, 0))
	checkList(t, base.Bytewise, m)
}

// A writer that stalls between linking its entry forward and back must not
// undo the back link of a later one, nor leave its own undone forever.
func TestLinkBackOfStalledWriter(t *testing.T) {
	for _, c := range []struct {
		claim string
		other string // what another writer adds meanwhile
	}{
		{"nothing came between", ""},
		{"an entry came before it", "b"},
		{"an entry came after it", "d"},
		{"an entry came after its successor", "f"},
	} {
		t.Run(c.claim, func(t *testing.T) {
			m := New(base.Bytewise, 1<<12)
			addAll(t, m, []record{{1, base.KindSet, []byte("a"), nil}, {2, base.KindSet, []byte("e"), nil}})
			stalled := m.newTarget([]byte("c"), base.MakeTrailer(3, base.KindSet))
			node, ok := m.alloc(nodeSize(1, len(stalled.key), 0), 1)
			require.True(t, ok)
			m.fill(node, stalled.trailer, stalled.key, nil)
			before, after := m.search(&stalled)
			m.next(node, 0).Store(after)
			m.prev(node).Store(before)
			require.True(t, m.next(before, 0).CompareAndSwap(after, node))

			if c.other != "" {
				require.True(t, m.Add(4, base.KindSet, []byte(c.other), nil))
			}
			m.linkBack(node, after)
			m.entries.Add(1)
			checkList(t, base.Bytewise, m)
		})
	}
}
