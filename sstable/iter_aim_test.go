package sstable

import (
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/limit/cache"
	"github.com/sievedb/sievedb/internal/test/race"
)

// aimedTables returns iterators over tables of the same entries, whose blocks are cached in
// every form, in part, or not at all.
func aimedTables(t *testing.T) (its []*Iter, files []*memFile, es entries) {
	packed, _, es := packedTable(t)
	add := func(r *Reader, f *memFile) *Reader {
		it := newIter(t, r, IterOptions{})
		t.Cleanup(func() { require.NoError(t, it.Close()) })
		its, files = append(its, it), append(files, f)
		return r
	}
	data := buildTable(t, WriterOptions{Compression: Snappy}, es)
	add(openTable(t, data, ReaderOptions{}))
	add(openTable(t, data, ReaderOptions{Cache: newCache()}))
	add(openTable(t, data, ReaderOptions{Cache: roomFor(t, base.Bytewise, data, 0.5)}))
	c := newCache()
	sliced := add(openTable(t, data, ReaderOptions{Cache: c}))
	require.Positive(t, putInSlices(t, sliced, c))
	add(packed, new(memFile))
	return its, files, es
}

func TestAimedSeeksAgreeWithASortedSlice(t *testing.T) {
	rnd := newRand(t)
	its, files, es := aimedTables(t)
	targets := [][]byte{ikey("", base.MaxSeq, base.KindSeek), ikey("\xff\xff\xff", base.MaxSeq, base.KindSeek)}
	for range 3000 {
		targets = append(targets, base.AppendInternalKey(nil, randomUser(rnd, es), randomSeq(rnd), base.KindSeek))
	}
	for _, target := range targets {
		for _, f := range files {
			f.takeReads()
		}
		Aim(its, target)
		for _, f := range files {
			require.Empty(t, f.takeReads(), "Aim reads from disk")
		}
		at := place(base.Bytewise, es, target)
		for i, it := range its {
			require.Equal(t, at < len(es), it.SeekAimed(target), "iterator %d", i)
			require.NoError(t, it.Err())
			require.Nil(t, it.aim.held, "an idle iterator keeps no block alive")
			for j := at; j < min(at+rnd.IntN(40), len(es)); j++ {
				require.Equal(t, es[j].Key, it.Key())
				require.Equal(t, es[j].Value, it.Value())
				it.Next()
			}
		}
	}
}

// Seeks through a full cache allocate only the blocks that it keeps.
func TestSeeksThroughAFullCacheAllocateOnlyKeptMemory(t *testing.T) {
	race.SkipAllocations(t)
	es := benchEntries(20_000)
	data := buildTable(t, WriterOptions{Compression: Snappy}, es)
	for _, part := range []float64{0, 0.1, 0.5} {
		left := uint64(0)
		c := new(BlockCache)
		capacity := roomFor(t, nil, data, part).Metrics().Capacity
		c.cache = cache.NewWithForms(capacity, func(b *Block) bool { return b.packable }, func(*Block) { left++ })
		r, _ := openTable(t, data, ReaderOptions{Cache: c})
		var stats IterStats
		it := newIter(t, r, IterOptions{Stats: &stats})
		rnd := rand.New(rand.NewPCG(5, 5))
		its, target := []*Iter{it}, []byte(nil)
		seeks := func(n int) {
			for range n {
				target = append(target[:0], es[rnd.IntN(len(es))].Key...)
				Aim(its, target)
				for ok, steps := it.SeekAimed(target), 10; ok && steps > 0; steps-- {
					ok = it.Next()
				}
			}
		}
		seeks(10_000)
		var before, after runtime.MemStats
		came, misses := left+uint64(c.Metrics().Count), stats.BlocksFromDisk
		runtime.ReadMemStats(&before)
		seeks(5_000)
		runtime.ReadMemStats(&after)
		came, misses = left+uint64(c.Metrics().Count)-came, stats.BlocksFromDisk-misses
		// Each block has a cache entry and one or two pieces; 32 misses allocate two marks.
		require.LessOrEqual(t, after.Mallocs-before.Mallocs, 3*came+misses/8+20, "room for %v", part)
		require.Equal(t, part > 0, came > 100, "room for %v", part)
		require.NoError(t, it.Close())
	}
}
