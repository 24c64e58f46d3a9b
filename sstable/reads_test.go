package sstable

import (
	"bytes"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/codec"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/util"
)

// These tests count reads from the file: saving them is the purpose of the store.

// dataEnd returns where the data blocks of one of our tables end.
func dataEnd(t *testing.T, data []byte) uint64 {
	r, _ := openTable(t, data, ReaderOptions{})
	p, ok := r.Properties()
	require.True(t, ok)
	return p.DataBytes
}

func indexRange(t *testing.T, data []byte) (start, end uint64) {
	foot := result.Of(codec.DecodeFooter(data[len(data)-footerLen:], uint64(len(data))))(t)
	return foot.Index.Offset, foot.Index.End()
}

// touches reports whether a read has a byte of [start, end).
func touches(reads []blockSpan, start, end uint64) bool {
	for _, s := range reads {
		if s.offset < end && s.offset+s.size > start {
			return true
		}
	}
	return false
}

func TestOpenInPiecesReadsNoByteOfIndexOrData(t *testing.T) {
	for _, n := range []int{1, 20, 40, 100, 5000} {
		data := buildTable(t, WriterOptions{Filter: bloom}, plainEntries(n, 100))
		_, f := openInPieces(t, data, ReaderOptions{Policies: []filter.Policy{bloom}, Cache: newCache()})
		reads := f.takeReads()
		require.Len(t, reads, 3, "footer, metaindex, filter")
		start, end := indexRange(t, data)
		require.False(t, touches(reads, start, end), "index")
		require.False(t, touches(reads, 0, dataEnd(t, data)), "data")
	}
}

func TestNegativeFilterReadsNothing(t *testing.T) {
	never := constPolicy{answer: false}
	// From one entry to many blocks: a lone filter must be known to cover the table even with the smallest base_lg.
	for n := 1; n < 3000; n += 1 + n/3 {
		es := plainEntries(n, 100)
		r, f := openTable(t, buildTable(t, WriterOptions{Filter: unchecked(never)}, es),
			ReaderOptions{Policies: []filter.Policy{never}, Cache: newCache()})
		require.Equal(t, FilterStatus{State: FilterWholeTable, Policy: "test.Const"}, r.FilterStatus())
		f.takeReads()
		for _, e := range es[:min(n, 50)] {
			res := result.Of(get(r, string(base.UserKey(e.Key)), base.MaxSeq))(t)
			require.Equal(t, Result{Filter: FilterNegative}, res)
		}
		require.Empty(t, f.takeReads(), "%d entries", n)
	}
}

func TestPassedFilterReadsOneDataBlock(t *testing.T) {
	for _, p := range []filter.Policy{constPolicy{answer: true}, bloom, nil} {
		t.Run(fmt.Sprintf("%T", p), func(t *testing.T) {
			es := plainEntries(5000, 100)
			data := buildTable(t, WriterOptions{Filter: p}, es)
			r, f := openInPieces(t, data, ReaderOptions{Policies: []filter.Policy{p}, Cache: newCache()})
			end := dataEnd(t, data)
			f.takeReads()
			user := string(base.UserKey(es[2500].Key))
			verdict := FilterPassed
			if p == nil {
				verdict = FilterNone
			}

			res := result.Of(get(r, user, base.MaxSeq))(t)
			require.True(t, res.Found)
			require.Equal(t, es[2500].Value, res.Value)
			require.True(t, res.IndexRead)
			require.True(t, res.BlockFromDisk)
			require.False(t, res.BlockFromCache)
			require.Equal(t, verdict, res.Filter)
			reads := f.takeReads()
			require.Len(t, reads, 2, "the index, only once, and one data block")
			require.GreaterOrEqual(t, reads[0].offset, end)
			require.Less(t, reads[1].offset, end)
			require.Equal(t, uint64(res.BytesRead), reads[0].size+reads[1].size)

			res = result.Of(get(r, user, base.MaxSeq))(t)
			require.True(t, res.Found)
			require.True(t, res.BlockFromCache)
			require.False(t, res.IndexRead || res.BlockFromDisk)
			require.Zero(t, res.BytesRead)
			require.Empty(t, f.takeReads())

			res = result.Of(get(r, string(base.UserKey(es[100].Key)), base.MaxSeq))(t)
			require.True(t, res.Found && res.BlockFromDisk && !res.IndexRead)
			reads = f.takeReads()
			require.Len(t, reads, 1)
			require.Equal(t, uint64(res.BytesRead), reads[0].size)
		})
	}
}

func TestTheFilterIsProbedBeforeTheIndexIsRead(t *testing.T) {
	var f *memFile
	asked := 0
	p := constPolicy{answer: true, onAsk: func() {
		asked++
		require.Empty(t, f.takeReads(), "nothing is read before the filter is probed")
	}}
	r, file := openTable(t, buildTable(t, WriterOptions{Filter: unchecked(p)}, plainEntries(1000, 50)),
		ReaderOptions{Policies: []filter.Policy{p}, Cache: newCache()})
	f = file
	f.takeReads()
	result.Of(get(r, "key00000500", base.MaxSeq))(t)
	require.Equal(t, 1, asked)
}

func TestBloomReadsNoMoreBlocksThanItsFalsePositives(t *testing.T) {
	es := plainEntries(20000, 20)
	r, f := openTable(t, buildTable(t, WriterOptions{Filter: bloom}, es), ReaderOptions{Policies: []filter.Policy{bloom}})
	_, err := get(r, "key00000000", base.MaxSeq) // loads the index
	require.NoError(t, err)
	f.takeReads()
	rnd := rand.New(rand.NewPCG(7, 7))
	passed := 0
	for range 20000 {
		res := result.Of(get(r, fmt.Sprintf("key%08x", rnd.Uint32()|1<<31), base.MaxSeq))(t)
		require.False(t, res.Found)
		if res.Filter == FilterPassed {
			passed++
		}
	}
	require.LessOrEqual(t, len(f.takeReads()), passed)
	require.Less(t, passed, 20000*4/100)
}

func TestBaseLgCoversTheLastBlock(t *testing.T) {
	for _, c := range []struct {
		lastOffset uint64
		want       uint8
	}{
		{0, 11}, {1, 11}, {2047, 11}, {2048, 12}, {1<<20 - 1, 20}, {1 << 20, 21},
		{1<<62 + 5, 63}, {1<<63 - 1, 63}, {1 << 63, 63}, {1<<64 - 1, 63},
	} {
		require.Equal(t, c.want, wholeTableBaseLg(c.lastOffset), "offset %d", c.lastOffset)
	}
	for n := 1; n < 2000; n *= 2 {
		data := buildTable(t, WriterOptions{Filter: bloom}, plainEntries(n, 100))
		r, _ := openTable(t, data, ReaderOptions{Policies: []filter.Policy{bloom}})
		ix, _, err := r.loadIndex()
		require.NoError(t, err)
		last := ix.Offset(ix.Len() - 1)
		require.Equal(t, max(11, bits.Len64(last)), int(r.filter.baseLg))
		require.Zero(t, last>>r.filter.baseLg)
	}
}

// buildPerBlock writes a table with a filter for each 2^baseLg bytes of file,
// as LevelDB does (table/filter_block.cc, FilterBlockBuilder).
func buildPerBlock(t testing.TB, p filter.Policy, es entries, blockSize int, baseLg uint8) []byte {
	t.Helper()
	var (
		filters []byte
		offsets []uint32
		keys    [][]byte
	)
	emit := func() {
		offsets = append(offsets, uint32(len(filters)))
		if len(keys) > 0 {
			filters = p.CreateFilter(filters, keys)
			keys = nil
		}
	}
	var file bytes.Buffer
	w := NewWriter(&file, WriterOptions{BlockSize: blockSize})
	for _, e := range es {
		require.NoError(t, w.Add(e.Key, e.Value))
		begin := w.Size() // of the block that the entry went to
		if w.data.empty() {
			begin = w.lastOffset
		}
		for begin>>baseLg > uint64(len(offsets)) {
			emit()
		}
		keys = append(keys, base.UserKey(e.Key))
	}
	endData(t, w)
	if len(keys) > 0 {
		emit()
	}
	block := filters
	for _, o := range append(offsets, uint32(len(filters))) {
		block = util.AppendFixed32(block, o)
	}
	require.NoError(t, w.finishTail([]namedFilter{{p.Name(), append(block, baseLg)}}))
	return file.Bytes()
}

func TestPerBlockFiltersAreUsed(t *testing.T) {
	for _, c := range []struct {
		blockSize int
		baseLg    uint8
	}{{300, 11}, {4096, 11}, {9000, 11}, {700, 13}, {4096, 21}} {
		t.Run(fmt.Sprintf("block %d/base_lg %d", c.blockSize, c.baseLg), func(t *testing.T) {
			es := plainEntries(1000, 60)
			r, f := openTable(t, buildPerBlock(t, bloom, es, c.blockSize, c.baseLg), ReaderOptions{Policies: []filter.Policy{bloom}})
			if c.baseLg < 21 {
				require.Equal(t, FilterPerBlock, r.FilterStatus().State)
			}
			negative := 0
			for i := range 2000 {
				user := fmt.Appendf(nil, "key%08d", i) // odd ones are absent
				checkGet(t, r, base.Bytewise, es, user, base.MaxSeq)
				f.takeReads()
				res := result.Of(get(r, string(user), base.MaxSeq))(t)
				switch res.Filter {
				case FilterNegative:
					negative++
					require.False(t, res.Found || res.BlockFromDisk)
					require.Empty(t, f.takeReads())
				case FilterPassed:
					require.True(t, res.BlockFromDisk)
				default:
					require.GreaterOrEqual(t, i, 1999, "only after the last block is no filter probed")
				}
			}
			require.Greater(t, negative, 900)
		})
	}
}

func TestReadAheadReadsSeveralBlocksTogether(t *testing.T) {
	es := plainEntries(5000, 100)
	data := buildTable(t, WriterOptions{Compression: Snappy}, es)
	for _, forward := range []bool{true, false} {
		c := newCache()
		r, f := openInPieces(t, data, ReaderOptions{Cache: c})
		var stats IterStats
		it := newIter(t, r, IterOptions{ReadAhead: 64 << 10, NoFillCache: true, Stats: &stats})
		f.takeReads()
		n, begin, step := 0, it.First, it.Next
		if !forward {
			begin, step = it.Last, it.Prev
		}
		for ok := begin(); ok; ok = step() {
			n++
		}
		require.NoError(t, it.Close())
		require.Equal(t, len(es), n)
		end := dataEnd(t, data)
		reads := f.takeReads()
		require.LessOrEqual(t, uint64(len(reads)), end/(60<<10)+1)
		var sum uint64
		for _, s := range reads {
			sum += s.size
		}
		require.Equal(t, end, sum, "every block once")
		start, indexEnd := indexRange(t, data)
		require.Equal(t, sum+indexEnd-start, stats.BytesRead)
		for i := range r.index.Load().slots {
			require.Nil(t, r.index.Load().slots[i].Peek(), "nothing may be added to the cache")
		}
	}
}

func TestIteratorsFillTheCacheUnlessNoFillCache(t *testing.T) {
	data := buildTable(t, WriterOptions{}, plainEntries(1000, 100))
	r, f := openTable(t, data, ReaderOptions{Cache: newCache()})
	walk := func(o IterOptions) (s IterStats) {
		o.Stats = &s
		it := newIter(t, r, o)
		for ok := it.First(); ok; ok = it.Next() {
		}
		require.NoError(t, it.Close())
		return s
	}
	blocks := walk(IterOptions{NoFillCache: true}).BlocksFromDisk
	require.NotZero(t, blocks)
	require.Equal(t, blocks, walk(IterOptions{}).BlocksFromDisk)
	f.takeReads()
	require.Equal(t, IterStats{BlocksFromCache: blocks}, walk(IterOptions{}))
	require.Equal(t, IterStats{BlocksFromCache: blocks}, walk(IterOptions{NoFillCache: true}))
	require.Empty(t, f.takeReads())
	r.DropBlocks()
	require.Equal(t, blocks, walk(IterOptions{}).BlocksFromDisk)
}

func TestGetHitAllocatesNothing(t *testing.T) {
	es := plainEntries(5000, 100)
	for _, shape := range []tableShape{
		{base.Bytewise, 4096, 16, Snappy, bloom},
		{base.Bytewise, 4096, 16, Snappy, constPolicy{answer: true}},
	} {
		r, _ := openTable(t, buildTable(t, shape.options(), es), ReaderOptions{Policies: shape.policies(), Cache: newCache()})
		users := make([][]byte, 0, 200)
		for i := range 100 {
			users = append(users, fmt.Appendf(nil, "key%08d", i*50), fmt.Appendf(nil, "key%08d", i*50+1))
		}
		lookups := func() {
			for _, u := range users {
				var lk Lookup
				lk.Init(u, base.MaxSeq)
				if _, err := r.Get(&lk); err != nil {
					t.Fatal(err)
				}
			}
		}
		lookups()
		requireAllocs(t, 0, 10, lookups)
	}
	// Also if keys must be rebuilt, or with a custom comparer.
	tricky := sortEntries(reverseOrder, plainEntries(500, 20))
	r, _ := openTable(t, buildTable(t, WriterOptions{Comparer: reverseOrder}, tricky), ReaderOptions{Comparer: reverseOrder, Cache: newCache()})
	user := []byte("key00000100")
	lookup := func() {
		var lk Lookup
		lk.Init(user, base.MaxSeq)
		if res, err := r.Get(&lk); err != nil || !res.Found {
			t.Fatal(res, err)
		}
	}
	lookup()
	requireAllocs(t, 0, 100, lookup)
}

func TestIterationAllocatesNothingPerStep(t *testing.T) {
	r, _ := openTable(t, buildTable(t, WriterOptions{Compression: Snappy}, plainEntries(5000, 100)), ReaderOptions{Cache: newCache()})
	for _, o := range []IterOptions{{}, {NoFillCache: true, ReadAhead: 32 << 10}} {
		it := newIter(t, r, o)
		walk := func() {
			for ok := it.First(); ok; ok = it.Next() {
			}
			for ok := it.Last(); ok; ok = it.Prev() {
			}
		}
		walk()
		requireAllocs(t, 0, 3, walk)
		require.NoError(t, it.Close())
	}
}
