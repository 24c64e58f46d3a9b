package sstable

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/test/itertest"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/internal/test/testseed"
	"github.com/sievedb/sievedb/util"
)

func buildBlock(interval int, es entries) []byte {
	w := blockWriter{interval: interval}
	for _, e := range es {
		w.add(e.Key, e.Value)
	}
	return bytes.Clone(w.finish())
}

var intervals = []int{1, 2, 3, 16, 1000}

// requireBlockConforms checks an iterator over a block of the entries.
func requireBlockConforms(t *testing.T, cmp *base.Comparer, es entries, interval int, rnd *rand.Rand) {
	t.Run(fmt.Sprintf("%s/%d entries/restart interval %d", cmp.Name, len(es), interval), func(t *testing.T) {
		b := result.Of(newBlock(buildBlock(interval, es), dataPart))(t)
		itertest.Run(t, cmp, es, rnd.Uint64(), func() base.Iterator {
			it := new(blockIter)
			it.init(cmp, b, dataPart)
			return it
		})
	})
}

func TestBlockIteratorConforms(t *testing.T) {
	rnd := newRand(t)
	for _, cmp := range []*base.Comparer{base.Bytewise, reverseOrder} {
		for _, n := range []int{0, 1, 2, 50, 300} {
			for _, interval := range intervals {
				requireBlockConforms(t, cmp, trickyEntries(rnd, cmp, n), interval, rnd)
			}
		}
	}
}

// If the keys of an interval exceed what an iterator keeps, it rebuilds the last ones from
// the entries. Some single keys exceed it too, also at restart points.
func TestBlockIteratorConformsWithLongKeys(t *testing.T) {
	rnd := newRand(t)
	var es entries
	var user []byte
	for i := range 200 {
		user = user[:rnd.IntN(len(user)+1)]
		if rnd.IntN(3) > 0 {
			user = user[:rnd.IntN(len(user)+1)]
		}
		most := maxPastKeys / 8
		if i%10 == 0 {
			most = 2 * maxPastKeys
		}
		for range rnd.IntN(most) {
			user = append(user, byte(rnd.UintN(3)))
		}
		es = append(es, itertest.Entry{Key: base.AppendInternalKey(nil, user, uint64(len(es)), base.KindSet), Value: []byte{byte(len(es))}})
		if len(user) > maxPastKeys/2 {
			user = user[:0]
		}
	}
	es = sortEntries(base.Bytewise, es)
	for _, interval := range intervals {
		requireBlockConforms(t, base.Bytewise, es, interval, rnd)
	}
}

// blockAnswers runs all searches with the same target. They must give the same result, or all fail.
func blockAnswers(t *testing.T, b *Block, user []byte, trailer uint64) (found, error) {
	t.Helper()
	fast, fastErr := b.get(nil, base.Bytewise, user, trailer)
	slow, slowErr := b.getRebuilding(base.Bytewise, user, trailer)
	var pv pivots
	pv.make(b)
	guided, guidedErr := b.get(&pv, base.Bytewise, user, trailer)
	require.Equal(t, fastErr, guidedErr, "with pivots")
	require.Equal(t, fast, guided, "with pivots")
	requireSkipsAsSteps(t, b, user, trailer)
	require.Equal(t, slowErr == nil, fastErr == nil, "fast: %v, slow: %v", fastErr, slowErr)
	if slowErr != nil {
		require.True(t, base.IsUnreadable(fastErr), fastErr)
		require.True(t, base.IsUnreadable(slowErr), slowErr)
		return found{}, slowErr
	}
	require.Equal(t, slow, fast)
	return fast, nil
}

// requireSkipsAsSteps compares a seek that skips entries with one that rebuilds each key.
func requireSkipsAsSteps(t *testing.T, b *Block, user []byte, trailer uint64) {
	var skips, steps blockIter
	skips.init(base.Bytewise, *b, dataPart)
	steps.init(base.Bytewise, *b, dataPart)
	steps.bytewise = false
	require.Equal(t, steps.seekGE(user, trailer), skips.seekGE(user, trailer))
	require.Equal(t, steps.err, skips.err)
	require.Equal(t, steps.pos, skips.pos)
	if steps.Valid() {
		require.Equal(t, string(steps.key), string(skips.key))
		require.Equal(t, steps.cur, skips.cur)
		require.Equal(t, [2]int{steps.restart, steps.limit}, [2]int{skips.restart, skips.limit})
	}
}

func TestPointSearchAgreesWithTheIterator(t *testing.T) {
	seed := testseed.Statistical(t)
	rnd := rand.New(rand.NewPCG(seed, 2))
	var fast, skipped, all int
	for range 150 {
		es := trickyEntries(rnd, base.Bytewise, 1+rnd.IntN(60))
		for _, interval := range intervals {
			b := result.Of(newBlock(buildBlock(interval, es), dataPart))(t)
			for range 60 {
				user, trailer := randomUser(rnd, es), base.MakeTrailer(randomSeq(rnd), base.Kind(rnd.UintN(2)))
				got := result.Of(blockAnswers(t, &b, user, trailer))(t)
				value, wantTrailer, ok := modelGet(base.Bytewise, es, user, trailer>>8)
				if base.Kind(trailer&0xff) == base.KindSeek {
					require.Equal(t, ok, got.ok)
					if ok {
						require.Equal(t, wantTrailer, got.trailer)
						require.Equal(t, string(value), string(got.value))
					}
				}
				all++
				if _, state, _ := b.getBytewise(nil, user, trailer); state == "" {
					fast++
				}
				var it blockIter
				it.init(base.Bytewise, b, dataPart)
				if it.toInterval(user, trailer) && it.skipTo(user, trailer) != skipUnsure {
					skipped++
				}
			}
		}
	}
	require.Greater(t, skipped, all/4, "seeks skip entries, although these keys often prevent it")
	require.Less(t, skipped, all, "some seeks cannot skip")
	require.Less(t, fast, all, "some searches must have rebuilt keys")
	require.Greater(t, fast, all/2, "most searches rebuild no keys")
}

// rawEntry encodes a block entry with any lengths.
func rawEntry(shared, unshared, valueLen uint64, rest string) string {
	b := util.AppendUvarint64(nil, shared)
	b = util.AppendUvarint64(b, unshared)
	return string(util.AppendUvarint64(b, valueLen)) + rest
}

func rawBlock(body string, restarts ...uint32) []byte {
	b := []byte(body)
	for _, r := range restarts {
		b = util.AppendFixed32(b, r)
	}
	return util.AppendFixed32(b, uint32(len(restarts)))
}

func TestMalformedBlocksAreRejected(t *testing.T) {
	key := string(ikey("k", 1, base.KindSet))
	good := rawEntry(0, 9, 1, key+"v")
	count := func(n uint32) []byte { return util.AppendFixed32([]byte(good), n) }
	for _, c := range []struct {
		name string
		data []byte
	}{
		{"no room for the count", []byte{0, 0, 0}},
		{"more restart points than fit", count(1000)},
		{"2^32-1 restart points", count(math.MaxUint32)},
		{"entries without a restart point", count(0)},
		{"the first restart point is not 0", rawBlock(good, 1)},
		{"restart points do not ascend", rawBlock(good+good, 0, 0)},
		{"a restart point is after the entries", rawBlock(good, 0, 1000)},
		{"an empty block with a restart point elsewhere", rawBlock("", 3)},
		{"a key longer than the block", rawBlock(rawEntry(0, 200, 1, key+"v"), 0)},
		{"a value longer than the block", rawBlock(rawEntry(0, 9, 200, key+"v"), 0)},
		{"lengths whose sum overflows 32 bits", rawBlock(rawEntry(0, math.MaxUint32, math.MaxUint32, key+"v"), 0)},
		{"a length of 64 bits", rawBlock(rawEntry(0, 9, math.MaxUint64, key+"v"), 0)},
		{"the first key shares bytes", rawBlock(rawEntry(3, 9, 1, key+"v"), 0)},
		{"a key shares more than the previous one has", rawBlock(good+rawEntry(10, 9, 1, key+"v"), 0)},
		{"a restart point within an entry", rawBlock(good+good, 0, 5)},
		{"a key at a restart point shares", rawBlock(good+rawEntry(1, 8, 1, key[1:]+"v"), 0, uint32(len(good)))},
		{"a key without a trailer", rawBlock(rawEntry(0, 7, 0, key[:7]), 0)},
		{"a key of unknown kind", rawBlock(rawEntry(0, 9, 0, "k\x20\x01\x00\x00\x00\x00\x00\x00"), 0)},
		{"a varint that does not end", rawBlock("\x80\x80\x80\x80\x80\x80\x80", 0)},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, err := newBlock(c.data, dataPart)
			if err != nil {
				require.ErrorIs(t, err, base.ErrCorruption)
				return
			}
			walkHostile(t, b)
			it := new(blockIter)
			it.init(base.Bytewise, b, dataPart)
			for it.First(); it.Valid(); it.Next() {
			}
			require.ErrorIs(t, it.Err(), base.ErrCorruption)
			require.False(t, it.First(), "an error sticks")
			require.False(t, it.SeekGE(ikey("a", 1, base.KindSet)))
		})
	}
}

// walkHostile uses a block of any bytes in every way: no movement may panic or loop
// forever, and both directions must read the same entries.
func walkHostile(t *testing.T, b Block) {
	walk := func(start, move func(*blockIter) bool) (keys []string, err error) {
		it := new(blockIter)
		it.init(base.Bytewise, b, dataPart)
		for ok := start(it); ok; ok = move(it) {
			require.True(t, it.Valid())
			keys = append(keys, string(it.Key())+"="+string(it.Value()))
			require.LessOrEqual(t, len(keys), len(b.data), "an endless walk")
		}
		require.False(t, it.Valid())
		return keys, it.Err()
	}
	forward, err := walk((*blockIter).First, (*blockIter).Next)
	inSteps, stepsErr := walk((*blockIter).First, func(it *blockIter) bool { return it.NextDistinct() || it.Next() })
	require.Equal(t, forward, inSteps)
	require.Equal(t, err == nil, stepsErr == nil)
	backward, backErr := walk((*blockIter).Last, (*blockIter).Prev)
	require.Equal(t, err == nil, backErr == nil)
	if err == nil {
		require.Len(t, backward, len(forward))
		for i := range forward {
			require.Equal(t, forward[i], backward[len(forward)-1-i])
		}
	}
	for _, kv := range forward {
		target := []byte(kv[:min(len(kv), 12)])
		if len(target) >= 8 {
			_, _ = blockAnswers(t, &b, base.UserKey(target), base.Trailer(target))
			seekLT := func(it *blockIter) bool { return it.SeekLT(target) }
			_, _ = walk(seekLT, (*blockIter).Prev)
			_, _ = walk(seekLT, (*blockIter).Next)
			if len(forward) > 64 {
				break
			}
		}
	}
}

// A writer need not share the whole common prefix of two keys. Only a different byte right
// after the shared ones shows that the keys differ.
func TestNextDistinctNeverMovesToTheSameKey(t *testing.T) {
	first := rawEntry(0, 10, 1, string(ikey("kk", 2, base.KindSet))+"v")
	within, restart := []uint32{0}, []uint32{0, uint32(len(first))}
	for _, c := range []struct {
		name     string
		entry    string
		restarts []uint32
		want     bool
	}{
		{"an older version that shares nothing", rawEntry(0, 10, 1, string(ikey("kk", 1, base.KindSet))+"v"), within, false},
		{"an older version that shares a byte", rawEntry(1, 9, 1, string(ikey("k", 1, base.KindSet))+"v"), within, false},
		{"an older version that shares the user key", rawEntry(2, 8, 1, string(ikey("", 1, base.KindSet))+"v"), within, false},
		{"a key that continues the other one", rawEntry(2, 9, 1, string(ikey("a", 1, base.KindSet))+"v"), within, false},
		{"another key that shares less than it could", rawEntry(0, 10, 1, string(ikey("kl", 1, base.KindSet))+"v"), within, false},
		{"another key of unknown kind", rawEntry(1, 9, 1, string(ikey("l", 1, 3))+"v"), within, false},
		{"another key", rawEntry(1, 9, 1, string(ikey("l", 1, base.KindSet))+"v"), within, true},
		{"an older version at a restart point", rawEntry(0, 10, 1, string(ikey("kk", 1, base.KindSet))+"v"), restart, false},
		{"a key at a restart point that shares a byte", rawEntry(1, 9, 1, string(ikey("l", 1, base.KindSet))+"v"), restart, false},
		{"a key of unknown kind at a restart point", rawEntry(0, 10, 1, string(ikey("kl", 1, 3))+"v"), restart, false},
		{"a key at a restart point that is not an internal key", rawEntry(0, 7, 1, "1234567v"), restart, false},
		{"another key at a restart point", rawEntry(0, 10, 1, string(ikey("kl", 1, base.KindSet))+"v"), restart, true},
		{"a key at a restart point that continues the other one", rawEntry(0, 11, 1, string(ikey("kka", 1, base.KindSet))+"v"), restart, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := result.Of(newBlock(rawBlock(first+c.entry, c.restarts...), dataPart))(t)
			it := new(blockIter)
			it.init(base.Bytewise, b, dataPart)
			require.True(t, it.First())
			require.Equal(t, c.want, it.NextDistinct())
			require.NoError(t, it.Err())
			require.Equal(t, !c.want, string(base.UserKey(it.Key())) == "kk", "the iterator moves only if it returns true")
		})
	}
}

func TestPrevCostsAreLinearInTheInterval(t *testing.T) {
	// One interval with 3,000 keys, each the previous one with a byte more. Rebuilding
	// every key from the restart point would copy 13 GB.
	var es entries
	user := []byte{}
	for i := range 3000 {
		user = append(user, 'a')
		es = append(es, itertest.Entry{Key: base.AppendInternalKey(nil, user, 1, base.KindSet), Value: []byte{byte(i)}})
	}
	b := result.Of(newBlock(buildBlock(1<<20, es), dataPart))(t)
	it := new(blockIter)
	it.init(base.Bytewise, b, dataPart)
	i := len(es) - 1
	for ok := it.Last(); ok; ok = it.Prev() {
		require.True(t, bytes.Equal(es[i].Key, it.Key()))
		i--
	}
	require.NoError(t, it.Err())
	require.Equal(t, -1, i)
}

func FuzzBlock(f *testing.F) {
	rnd := rand.New(rand.NewPCG(1, 1))
	for _, interval := range intervals {
		f.Add(buildBlock(interval, trickyEntries(rnd, base.Bytewise, 20)), []byte("a\x01\x01"), uint64(513))
	}
	f.Add(rawBlock(""), []byte{}, uint64(0))
	f.Fuzz(func(t *testing.T, data, user []byte, trailer uint64) {
		b, err := newBlock(data, dataPart)
		if err != nil {
			require.ErrorIs(t, err, base.ErrCorruption)
			return
		}
		_, _ = blockAnswers(t, &b, user, trailer)
		walkHostile(t, b)
	})
}

// The probability of a false alarm is negligible: in one block of 14 some lookup fails (298 of 4,000); in none of 600
// blocks, once in 10^19 runs.
func TestAllSearchesAgreeOnMutatedBlocks(t *testing.T) {
	rnd := newRand(t)
	accepted, refused := 0, 0
	blocks := 4000
	if testing.Short() {
		blocks = 600
	}
	for range blocks {
		es := trickyEntries(rnd, base.Bytewise, 1+rnd.IntN(25))
		data := buildBlock(intervals[rnd.IntN(len(intervals))], es)
		for range 1 + rnd.IntN(3) {
			data[rnd.IntN(len(data))] = []byte{0, 1, 8, 9, 0x80, 0xff, byte(rnd.UintN(256))}[rnd.IntN(7)]
		}
		b, err := newBlock(data, dataPart)
		if err != nil {
			require.ErrorIs(t, err, base.ErrCorruption)
			continue
		}
		for range 10 {
			if _, err := blockAnswers(t, &b, randomUser(rnd, es), base.MakeTrailer(randomSeq(rnd), base.KindSeek)); err != nil {
				refused++
			} else {
				accepted++
			}
		}
		walkHostile(t, b)
	}
	t.Logf("%d lookups answered, %d refused", accepted, refused)
	require.NotZero(t, accepted)
	require.NotZero(t, refused)
}
