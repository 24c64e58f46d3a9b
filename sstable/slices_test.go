package sstable

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/hugepages"
	"github.com/sievedb/sievedb/internal/limit/cache"
	"github.com/sievedb/sievedb/internal/test/itertest"
	"github.com/sievedb/sievedb/internal/test/race"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/internal/test/testseed"
)

// slicedBlock returns a block of the entries, whole and in slices.
func slicedBlock(t testing.TB, interval int, es entries) (plain, sliced Block) {
	plain = result.Of(newBlock(buildBlock(interval, es), dataPart))(t)
	data, ok := appendSliced(nil, &plain, new(scratch))
	require.True(t, ok)
	return plain, fitted(data, slicedKind)
}

func TestSlicesAgreeWithTheirBlock(t *testing.T) {
	rnd := newRand(t)
	for _, interval := range []int{1, 2, 16} {
		t.Run(fmt.Sprintf("interval %d", interval), func(t *testing.T) {
			r := &Reader{cmp: base.Bytewise}
			for range 30 {
				es := trickyEntries(rnd, base.Bytewise, 20+rnd.IntN(60))
				if len(es) <= interval {
					continue // one interval
				}
				plain, sliced := slicedBlock(t, interval, es)
				var lk Lookup
				for range 200 {
					user, seq := randomUser(rnd, es), randomSeq(rnd)
					lk.Init(user, seq)
					want := result.Of(plain.get(nil, base.Bytewise, user, lk.trailer))(t)
					var got Result
					done := result.Of(r.getInSlices(&sliced, nil, 0, &lk, &got))(t)
					require.Equal(t, want.atEnd, !done)
					require.Equal(t, want.ok, got.Found)
					require.Equal(t, want.trailer, got.Trailer)
					require.Equal(t, string(want.value), string(got.Value))
				}
				sc := lk.takeScratch()
				whole := result.Of(sc.decompress(&sliced))(t)
				require.Equal(t, plain.data, whole.data, "the block is the same, byte by byte")
				lk.Release()
			}
		})
	}
}

// putInSlices makes the cache hold all blocks of several intervals in slices, and as cold as
// possible, since it keeps hot ones whole.
func putInSlices(t *testing.T, r *Reader, c *BlockCache) (inSlices int) {
	c.cache.DropAll()
	ix, _, err := r.loadIndex()
	require.NoError(t, err)
	sc := new(scratch)
	for i := range ix.Len() {
		_, err := c.cache.GetOrLoad(&ix.slots[i], func() (Block, int64, error) {
			kept, err := r.readData(ix, i)
			require.NoError(t, err)
			if data, ok := appendSliced(nil, &kept, sc); ok {
				kept = fitted(data, slicedKind)
				inSlices++
			}
			c.register(&kept)
			return kept, kept.memBytes(), nil
		})
		require.NoError(t, err)
	}
	return inSlices
}

func TestTablesInSlicesAgreeWithTheModel(t *testing.T) {
	rnd := newRand(t)
	for range 20 {
		es := trickyEntries(rnd, base.Bytewise, 300)
		c := newCache()
		o := WriterOptions{BlockSize: 300 + rnd.IntN(3000), BlockRestartInterval: 1 + rnd.IntN(6)}
		r, _ := openTable(t, buildTable(t, o, es), ReaderOptions{Cache: c})
		for range 100 {
			require.Positive(t, putInSlices(t, r, c))
			for range 5 {
				checkGet(t, r, base.Bytewise, es, randomUser(rnd, es), randomSeq(rnd))
			}
		}
		itertest.Run(t, base.Bytewise, es, rnd.Uint64(), func() base.Iterator {
			require.Positive(t, putInSlices(t, r, c))
			it := newIter(t, r, IterOptions{})
			return it
		})
		for range 10 {
			require.Positive(t, putInSlices(t, r, c))
			checkSeeksOn(t, r, es, rnd)
		}
	}
}

func TestALookupDecodesOneSlice(t *testing.T) {
	es := benchEntries(36)
	_, sliced := slicedBlock(t, 16, es)
	require.Equal(t, 3, sliced.slices())
	r := &Reader{cmp: base.Bytewise}
	for i, e := range es {
		var lk Lookup
		var res Result
		lk.Init(base.UserKey(e.Key), base.MaxSeq)
		_, err := r.getInSlices(&sliced, nil, 0, &lk, &res)
		require.NoError(t, err)
		require.Equal(t, e.Value, res.Value)
		require.EqualValues(t, 1, lk.scratch.block.numRestarts)
		require.Less(t, len(lk.scratch.block.data), 16*140, "entry %d", i)
		requireAllocs(t, 0, 10, func() { _, err = r.getInSlices(&sliced, nil, 0, &lk, &res) })
		lk.Release()
	}
}

func TestBlocksThatCannotBeSlicedAreLeftWhole(t *testing.T) {
	es := benchEntries(36)
	good := buildBlock(16, es)
	p := int(good[len(good)-12]) + int(good[len(good)-11])<<8 // restart point 1 of 3
	for _, tc := range []struct {
		name  string
		bytes func() []byte
	}{
		{"one interval", func() []byte { return buildBlock(64, es) }},
		{"no entries", func() []byte { return buildBlock(16, nil) }},
		{"a restart point that shares bytes", func() []byte { b := bytes.Clone(good); b[p] = 3; return b }},
		{"keys at restart points that descend", func() []byte { b := bytes.Clone(good); b[p+3] = 0; return b }},
		{"a restart point whose key is too short", func() []byte { b := bytes.Clone(good); b[p+1] = 7; return b }},
		{"a restart point whose lengths reach too far", func() []byte { b := bytes.Clone(good); b[p+1] = 0xff; b[p+2] = 0xff; return b }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := result.Of(newBlock(tc.bytes(), dataPart))(t)
			_, ok := appendSliced(nil, &b, new(scratch))
			require.False(t, ok)
		})
	}
}

func TestPiecesWasteLittleMemory(t *testing.T) {
	rnd := newRand(t)
	data := make([]byte, 40<<10)
	for i := range data {
		data[i] = byte(rnd.Uint32())
	}
	sc := new(scratch)
	for n := 1; n < 32<<10; n += 1 + rnd.IntN(50) {
		b := fitted(data[:n], Snappy)
		require.Equal(t, n, b.stored())
		require.LessOrEqual(t, int(b.memBytes()-cache.EntrySize[Block]()), n+n/16+128, "of %d bytes", n)
		require.Equal(t, data[:n], append(bytes.Clone(b.data), b.rest...))
		start := rnd.IntN(n)
		end := start + rnd.IntN(n-start)
		require.Equal(t, data[start:end], append([]byte{}, sc.join(&b, start, end)...))
	}
}

// The size charged for a block is the memory that the allocator uses for it. The runtime also allocates when a garbage
// collection begins, and the first block makes the list of size classes, so the test uses the median of many blocks.
func TestTheSizeOfABlockIsItsMemory(t *testing.T) {
	race.SkipAllocations(t)
	data := make([]byte, 40<<10)
	for _, n := range []int{1, 100, 1000, 2430, 2431, 4000, 10_000, 33_000} {
		const blocks = 201
		kept, took := make([]Block, blocks), make([]int64, blocks)
		var before, after runtime.MemStats
		for i := range kept {
			runtime.ReadMemStats(&before)
			kept[i] = fitted(data[:n], Snappy)
			runtime.ReadMemStats(&after)
			took[i] = int64(after.TotalAlloc - before.TotalAlloc)
		}
		slices.Sort(took)
		require.InDelta(t, took[blocks/2], kept[0].memBytes()-cache.EntrySize[Block](), 16, "%d bytes", n)
	}
}

func TestBlocksUsedSeveralTimesAreKeptInSlices(t *testing.T) {
	r, c, es := packedTable(t)
	held := map[Compression]int{}
	for i := range r.index.Load().slots {
		if b := r.index.Load().slots[i].Peek(); b != nil {
			held[b.kind]++
		}
	}
	require.Greater(t, held[slicedKind], 20)
	require.Zero(t, held[Snappy], "each was used twenty times")
	for _, e := range es {
		checkGet(t, r, base.Bytewise, es, base.UserKey(e.Key), base.MaxSeq)
	}
	checkBlockCache(t, c, r)
}

func TestGuessedSlicePositionsFitUniformValues(t *testing.T) {
	seed := testseed.Statistical(t)
	rnd := rand.New(rand.NewPCG(seed, 7))
	var es entries
	for i := range 60 {
		half := make([]byte, 50)
		for i := range half {
			half[i] = byte(rnd.Uint32())
		}
		es = append(es, itertest.Entry{Key: ikey(fmt.Sprintf("%016d", 2*i), 0, base.KindSet), Value: append(half, half...)})
	}
	plain, sliced := slicedBlock(t, 16, es)
	sliced.entriesEnd = plain.entriesEnd
	for i := range sliced.slices() {
		from, to := sliced.guessSlice(start{p: plain.restart(i), limit: plain.restartLimit(i)})
		require.Less(t, from, sliced.sliceStart(i)+hugepages.CacheLine)
		require.Greater(t, to, sliced.sliceEnd(i)-hugepages.CacheLine)
		require.GreaterOrEqual(t, from, 0)
		require.LessOrEqual(t, to, sliced.stored())
	}
}
