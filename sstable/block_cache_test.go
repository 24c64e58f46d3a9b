package sstable

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/test/itertest"
	"github.com/sievedb/sievedb/internal/test/result"
)

// roomFor returns a cache with room for a part of the decoded blocks of a table.
func roomFor(t testing.TB, cmp *base.Comparer, data []byte, part float64) *BlockCache {
	r, _ := openTable(t, data, ReaderOptions{Comparer: cmp})
	ix, _, err := r.loadIndex()
	require.NoError(t, err)
	var bytes int64
	for i := range ix.Len() {
		b := result.Of(r.readData(ix, i))(t)
		b.data = owned(b.data)
		bytes += b.memBytes()
	}
	return NewBlockCache(int64(float64(bytes) * part))
}

// checkBlockCache compares the counts of the cache with the contents of the slots of its only table.
func checkBlockCache(t testing.TB, c *BlockCache, r *Reader) BlockCacheMetrics {
	t.Helper()
	var want BlockCacheMetrics
	for i := range r.index.Load().slots {
		b := r.index.Load().slots[i].Peek()
		if b == nil {
			continue
		}
		want.Count++
		want.Size += b.memBytes()
		if b.kind != NoCompression {
			want.Compressed++
			want.CompressedBytes += b.memBytes()
		}
	}
	m := c.Metrics()
	require.Equal(t, want.Count, m.Count)
	require.Equal(t, want.Size, m.Size)
	require.Equal(t, want.Compressed, m.Compressed)
	require.Equal(t, want.CompressedBytes, m.CompressedBytes)
	require.LessOrEqual(t, m.Size, m.Capacity)
	return m
}

// Lookups, iterators and the counts of the cache, without a cache, with one that has room for a part of the table, and
// with one that has room for all of it, so that pivots are used.
func TestLookupsAgreeWithTheModel(t *testing.T) {
	rnd := newRand(t)
	gets := 6000
	if testing.Short() {
		gets = 2000
	}
	for _, shape := range append(tableShapes, tableShape{base.Bytewise, 500, 4, Snappy, nil}) {
		for _, part := range []float64{0, 0.1, 0.5, 1.2} {
			t.Run(fmt.Sprintf("%v/room for %v", shape, part), func(t *testing.T) {
				es := trickyEntries(rnd, shape.cmp, 400)
				data := buildTable(t, shape.options(), es)
				o := ReaderOptions{Comparer: shape.cmp, Policies: shape.policies()}
				if part > 0 {
					o.Cache = roomFor(t, shape.cmp, data, part)
				}
				r, _ := openTable(t, data, o)
				var lk Lookup
				for i := range gets {
					user := randomUser(rnd, es[:len(es)/8]) // these become hot
					if i%2 == 0 {
						user = randomUser(rnd, es)
					}
					seq := randomSeq(rnd)
					lk.Init(user, seq)
					got := result.Of(r.Get(&lk))(t)
					requireModel(t, shape.cmp, es, user, seq, got)
					if i%3 == 0 {
						lk.Release()
					}
				}
				lk.Release()
				itertest.Run(t, shape.cmp, es, rnd.Uint64(), iters(t, r, IterOptions{NoFillCache: rnd.IntN(2) == 0, ReadAhead: rnd.IntN(2) * 700}))
				if part > 0 {
					checkBlockCache(t, o.Cache, r)
				}
			})
		}
	}
}

func TestAFullCacheKeepsBlocksAsStored(t *testing.T) {
	es := benchEntries(8_000)
	for _, tc := range []struct {
		name        string
		compression Compression
		part        float64
		packs       bool
	}{
		{"room for half", Snappy, 0.5, true},
		{"room for all", Snappy, 1, false},
		{"not compressed", NoCompression, 0.5, false},
		{"slow to decode", Zstd, 0.5, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			data := buildTable(t, WriterOptions{Compression: tc.compression}, es)
			c := roomFor(t, nil, data, tc.part)
			r, f := openTable(t, data, ReaderOptions{Cache: c})
			rnd := rand.New(rand.NewPCG(1, 1))
			gets := func(n int) (fromDisk int) {
				var lk Lookup
				defer lk.Release()
				for range n {
					e := es[rnd.IntN(len(es))]
					lk.Init(base.UserKey(e.Key), base.MaxSeq)
					f.takeReads()
					res := result.Of(r.Get(&lk))(t)
					require.Equal(t, e.Value, res.Value)
					if res.BlockFromDisk {
						fromDisk++
					} else if !res.IndexRead {
						require.Empty(t, f.takeReads())
					}
				}
				return fromDisk
			}
			gets(40_000)
			missed := gets(10_000)
			m := checkBlockCache(t, c, r)
			if !tc.packs {
				require.Zero(t, m.Compressed)
				require.InDelta(t, 10_000*(1-tc.part), missed, 300)
				return
			}
			require.Greater(t, m.Compressed, m.Count*8/10)
			require.Less(t, missed, 10_000*35/100, "the stored blocks are two thirds as large")
			c.Close()
			require.Zero(t, checkBlockCache(t, c, r).Count)
		})
	}
}

func TestIncompressibleBlocksAreKeptDecoded(t *testing.T) {
	for _, tc := range []struct {
		kind            Compression
		stored, decoded int
		want            bool
	}{
		{Snappy, 3072, 4096, true},
		{Snappy, 3073, 4096, false},
		{NoCompression, 4096, 4096, false},
		{Zstd, 100, 4096, false},
		{deflateKind, 100, 4096, false},
	} {
		require.Equal(t, tc.want, worthPacking(tc.kind, tc.stored, tc.decoded), "%+v", tc)
	}
}

// packedTable opens a table whose blocks are all in a full cache, as they are stored.
func packedTable(t *testing.T) (*Reader, *BlockCache, entries) {
	es := benchEntries(2_000)
	data := buildTable(t, WriterOptions{Compression: Snappy}, es)
	c := roomFor(t, nil, data, 0.85)
	other, _ := openTable(t, data, ReaderOptions{Cache: c})
	r, _ := openTable(t, data, ReaderOptions{Cache: c})
	for range 3 { // other fills the cache, then r's blocks are added, evicted and added again
		for _, e := range es {
			result.Of(get(other, string(base.UserKey(e.Key)), base.MaxSeq))(t)
		}
	}
	for range 20 {
		for i := 0; i < len(es); i += 30 {
			result.Of(get(r, string(base.UserKey(es[i].Key)), base.MaxSeq))(t)
		}
	}
	other.DropBlocks()
	return r, c, es
}

// packedEntry returns an entry of a block that is kept as it is stored, and its slot.
func packedEntry(t *testing.T, r *Reader, es entries) (itertest.Entry, *Block, int) {
	ix := r.index.Load()
	for _, e := range es {
		i := ix.find(r.cmp, base.UserKey(e.Key), base.Trailer(e.Key))
		if b := ix.slots[i].Peek(); b != nil && b.kind != NoCompression && !r.cache.cache.Hot(&ix.slots[i]) {
			return e, b, i
		}
	}
	t.Fatal("no block is kept as it is stored")
	return itertest.Entry{}, nil, 0
}

func TestABlockUsedOftenIsKeptDecompressed(t *testing.T) {
	for _, how := range []string{"Get", "Iter"} {
		t.Run(how, func(t *testing.T) {
			r, c, es := packedTable(t)
			e, b, i := packedEntry(t, r, es)
			before := c.Metrics().Compressed
			for range 200 { // as often as the cache counts
				if how == "Get" {
					checkGet(t, r, base.Bytewise, es, base.UserKey(e.Key), base.MaxSeq)
					continue
				}
				it := newIter(t, r, IterOptions{})
				require.True(t, it.SeekGE(e.Key))
				require.Equal(t, e.Value, it.Value())
				require.NoError(t, it.Close())
			}
			now := r.index.Load().slots[i].Peek()
			require.NotSame(t, b, now)
			require.Equal(t, NoCompression, now.kind)
			require.True(t, now.packable)
			require.Equal(t, before-1, c.Metrics().Compressed)
			checkGet(t, r, base.Bytewise, es, base.UserKey(e.Key), base.MaxSeq)
		})
	}
}

func TestValuesAreValidUntilTheirLookupIsReleased(t *testing.T) {
	r, _, es := packedTable(t)
	users := make([]Lookup, 200)
	results := make([]Result, len(users))
	for i := range users {
		users[i].Init(base.UserKey(es[i*10].Key), base.MaxSeq)
		results[i] = result.Of(r.Get(&users[i]))(t)
	}
	for i := range users {
		require.Equal(t, es[i*10].Value, results[i].Value)
		users[i].Release()
		users[i].Release() // is harmless
	}
}

func TestALookupOfACompressedBlockAllocatesNothing(t *testing.T) {
	r, _, es := packedTable(t)
	_, b, _ := packedEntry(t, r, es)
	sc := new(scratch)
	unpack := func() {
		if _, err := sc.decompress(b); err != nil {
			t.Fatal(err)
		}
	}
	unpack()
	requireAllocs(t, 0, 100, unpack)
}

func TestAMissAllocatesOnlyKeptMemory(t *testing.T) {
	es := benchEntries(20_000)
	data := buildTable(t, WriterOptions{Compression: Snappy}, es)
	for _, tc := range []struct {
		name   string
		cache  *BlockCache
		allocs float64
	}{
		{"without a cache", nil, 0},
		{"into a cache, the block in at most two pieces and its cache entry", roomFor(t, nil, data, 0.02), 3},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r, _ := openTable(t, data, ReaderOptions{Cache: tc.cache})
			next, misses := 0, 0
			lookup := func() {
				var lk Lookup
				lk.Init(base.UserKey(es[next%len(es)].Key), base.MaxSeq)
				res, err := r.Get(&lk)
				if err != nil {
					t.Fatal(err)
				}
				if res.BlockFromDisk {
					misses++
				}
				lk.Release()
				next += 50 // another block
			}
			for range 2000 {
				lookup()
			}
			requireAllocs(t, tc.allocs+0.1, 2000, lookup)
			require.Greater(t, misses, 3000)
		})
	}
}

func TestBlocksTooLargeForAScratchAreKeptDecoded(t *testing.T) {
	es := plainEntries(20, 100_000)
	for _, kind := range []Compression{NoCompression, Snappy} {
		data := buildTable(t, WriterOptions{BlockSize: 1 << 20, Compression: kind}, es)
		for _, c := range []*BlockCache{nil, NewBlockCache(64 << 20), NewBlockCache(100_000)} {
			r, _ := openTable(t, data, ReaderOptions{Cache: c, Policies: []filter.Policy{bloom}})
			var lk Lookup
			for range 3 {
				for _, e := range es {
					lk.Init(base.UserKey(e.Key), base.MaxSeq)
					res := result.Of(r.Get(&lk))(t)
					require.Equal(t, e.Value, res.Value)
				}
			}
			if c != nil {
				checkBlockCache(t, c, r)
			}
			sc := lk.scratch
			lk.Release()
			if sc != nil {
				require.LessOrEqual(t, cap(sc.stored), maxScratch)
				require.LessOrEqual(t, cap(sc.decoded), maxScratch)
			}
		}
	}
}

// TestReadersOfOneFullCacheAgree lets lookups and iterators of several goroutines
// load, decompress and replace the same blocks.
func TestReadersOfOneFullCacheAgree(t *testing.T) {
	seed := newRand(t).Uint64()
	es := benchEntries(3_000)
	data := buildTable(t, WriterOptions{Compression: Snappy, BlockSize: 1024}, es)
	c := roomFor(t, nil, data, 0.5)
	r, _ := openTable(t, data, ReaderOptions{Cache: c})
	var wg sync.WaitGroup
	for g := range 6 {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(seed, uint64(g)))
			var lk Lookup
			defer lk.Release()
			for i := range 8000 {
				e := es[rnd.IntN(len(es))]
				if i%2 == 0 {
					e = es[rnd.IntN(len(es)/20)]
				}
				if i%16 > 0 {
					lk.Init(base.UserKey(e.Key), base.MaxSeq)
					if res, err := r.Get(&lk); err != nil || string(res.Value) != string(e.Value) {
						t.Error("a lookup found another value or failed:", err)
					}
					continue
				}
				it, err := r.NewIter(IterOptions{NoFillCache: i%32 == 0})
				if err != nil || !it.SeekGE(e.Key) || string(it.Value()) != string(e.Value) {
					t.Error("an iterator found another value or failed:", err)
				}
				if err := it.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	checkBlockCache(t, c, r)
}

// The cache checks for room for the block's own size. The memory in which the block was
// decompressed may be larger, since it may have been used for larger blocks.
func TestABlockThatFitsIsKeptDecompressedWhateverItsBuffer(t *testing.T) {
	es := plainEntries(40, 100)
	c := NewBlockCache(8 << 10)
	r, _ := openTable(t, buildTable(t, WriterOptions{Compression: Snappy, BlockSize: 4 << 10}, es), ReaderOptions{Cache: c})
	ix, _, err := r.loadIndex()
	require.NoError(t, err)
	sc := &scratch{decoded: make([]byte, 0, maxScratch), stored: make([]byte, 0, maxScratch)}
	_, _, err = r.loadData(ix, 0, sc, true)
	require.NoError(t, err)
	held := ix.slots[0].Peek()
	require.NotNil(t, held)
	require.Equal(t, NoCompression, held.kind)
	require.Less(t, cap(held.data), 6<<10)
}

// If blocks are used many times before they are evicted, a new one is kept in slices
// immediately. Kept as stored, it would have to be decoded for slices a few uses later.
func TestABusyCacheKeepsNewBlocksInSlices(t *testing.T) {
	es := benchEntries(8_000)
	data := buildTable(t, WriterOptions{Compression: Snappy}, es)
	for _, tc := range []struct {
		name string
		uses int
		want Compression
	}{
		{"busy", 30, slicedKind},
		{"not busy", 1, Snappy},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := roomFor(t, nil, data, 0.5)
			r, _ := openTable(t, data, ReaderOptions{Cache: c})
			ix, _, err := r.loadIndex()
			require.NoError(t, err)
			use := func(i, times int) {
				for range times {
					result.Of(get(r, string(base.UserKey(ix.Separator(i))), base.MaxSeq))(t)
				}
			}
			kinds := map[Compression]int{}
			for range 10 {
				for i := range ix.Len() {
					held := ix.slots[i].Peek() != nil
					use(i, 1)
					if b := ix.slots[i].Peek(); b != nil && !held {
						kinds[b.kind]++
					}
					use(i, tc.uses-1)
				}
			}
			require.Greater(t, kinds[tc.want], 100)
			checkBlockCache(t, c, r)
		})
	}
}
