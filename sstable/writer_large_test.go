package sstable

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/test/itertest"
	"github.com/sievedb/sievedb/internal/test/result"
)

// mixed returns n bytes that Snappy and Zstandard shrink by about the given share.
func mixed(n int, share float64) []byte {
	rnd := rand.New(rand.NewPCG(uint64(n), 1))
	value := make([]byte, n)
	for at := 0; at < n; at += 100 {
		piece := value[at:min(at+100, n)]
		for i := range int(float64(len(piece)) * (1 - share)) {
			piece[i] = byte(rnd.Uint32())
		}
	}
	return value
}

// largeEntries returns small entries with large ones among them, at the beginning and at the end.
func largeEntries() entries {
	var es entries
	for i, e := range plainEntries(300, 50) {
		if i%100 == 0 || i == 299 {
			e.Value = mixed(largeEntry+i, float64(i%2)/2)
		}
		es = append(es, e)
	}
	long := base.AppendInternalKey(bytes.Repeat([]byte("z"), largeEntry), nil, 7, base.KindSet)
	return append(es, itertest.Entry{Key: long, Value: []byte("v")},
		itertest.Entry{Key: base.AppendInternalKey(append(base.UserKey(long), 'a'), nil, 7, base.KindDelete)})
}

func TestATableWithLargeEntriesIsReadBack(t *testing.T) {
	es := largeEntries()
	for _, kind := range []Compression{NoCompression, Snappy, Zstd} {
		for _, blockSize := range []int{0, 4 << 20} { // the latter gathers them
			t.Run(fmt.Sprintf("%d/%d", kind, blockSize), func(t *testing.T) {
				o := WriterOptions{Compression: kind, BlockSize: blockSize, Filter: filter.NewDualBloomPolicy(10)}
				data := buildTable(t, o, es)
				r, _ := openTable(t, data, ReaderOptions{Policies: filter.Kinds(o.Filter), Cache: newCache()})
				it := newIter(t, r, IterOptions{})
				i := 0
				for ok := it.First(); ok; ok = it.Next() {
					require.True(t, bytes.Equal(es[i].Key, it.Key()))
					require.True(t, bytes.Equal(es[i].Value, it.Value()))
					i++
				}
				require.NoError(t, it.Err())
				require.Equal(t, len(es), i)
				for ok := it.Last(); ok; ok = it.Prev() {
					i--
					require.True(t, bytes.Equal(es[i].Key, it.Key()))
				}
				require.NoError(t, it.Close())
				require.Zero(t, i)
				p, ok := r.Properties()
				require.True(t, ok)
				require.EqualValues(t, len(es), p.Entries)
				for _, i := range []int{0, 1, 100, 299, 300} {
					res := result.Of(get(r, string(base.UserKey(es[i].Key)), base.MaxSeq))(t)
					require.True(t, res.Found)
					require.True(t, bytes.Equal(es[i].Value, res.Value))
				}
				again := result.Of(copied(r, o))(t)
				require.True(t, bytes.Equal(data, again), "a copy of its blocks")
			})
		}
	}
}

func TestAWriterKeepsNoLargeBuffers(t *testing.T) {
	w := NewWriter(io.Discard, WriterOptions{})
	long := func(i int) []byte {
		return base.AppendInternalKey(fmt.Appendf(nil, "%02d%06000000d", i, 0), nil, 1, base.KindSet)
	}
	for i := range 4 {
		require.NoError(t, w.Add(long(i), nil))
	}
	finish(t, w)
	require.Greater(t, w.MemoryKept(), uint64(24<<20), "the index has the keys")
	w.Reset(io.Discard)
	require.Less(t, w.MemoryKept(), uint64(4*maxKept))
	require.Nil(t, w.index.buf)
	require.NoError(t, w.Add(ikey("a", 1, base.KindSet), nil))
	finish(t, w)
}

// Closed iterators, and those that lookups share, kept the memory of the longest key.
func TestNoLongKeyStaysInAnIteratorsMemory(t *testing.T) {
	es := largeEntries()
	r, _ := openTable(t, buildTable(t, WriterOptions{}, es), ReaderOptions{})
	it := newIter(t, r, IterOptions{})
	require.True(t, it.Last())
	require.GreaterOrEqual(t, cap(it.data.key), largeEntry)
	require.NoError(t, it.Close())
	require.LessOrEqual(t, cap(it.data.key), maxIdleKey)

	// An iterator that has moved to another block does not keep the large one.
	require.NoError(t, it.Open(r, IterOptions{}))
	require.True(t, it.First())
	require.Greater(t, cap(it.scratch.stored), largeEntry)
	require.True(t, it.Next())
	require.LessOrEqual(t, cap(it.scratch.stored), maxScratch)
	require.NoError(t, it.Close())
}
