package sstable

import (
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/test/itertest"
)

// benchEntries returns n entries with random 16-byte keys and 100-byte values that
// compress to half. Absent keys are the same keys with their last bit flipped.
func benchEntries(n int) entries {
	rnd := rand.New(rand.NewPCG(9, 9))
	es := make(entries, n)
	for i := range es {
		key := make([]byte, 16, 24)
		binary.BigEndian.PutUint64(key, rnd.Uint64())
		binary.BigEndian.PutUint64(key[8:], rnd.Uint64()&^1)
		value := make([]byte, 100)
		for j := range 50 {
			value[j] = byte(rnd.UintN(256))
		}
		es[i] = itertest.Entry{Key: base.AppendInternalKey(key, nil, uint64(i+1), base.KindSet), Value: value}
	}
	return sortEntries(base.Bytewise, es)
}

// benchUsers returns some of the user keys of es in random order, or absent keys next to them.
func benchUsers(es entries, present bool) [][]byte {
	rnd := rand.New(rand.NewPCG(1, 1))
	users := make([][]byte, 1<<14)
	for i := range users {
		users[i] = append([]byte(nil), base.UserKey(es[rnd.IntN(len(es))].Key)...)
		if !present {
			users[i][15] |= 1
		}
	}
	return users
}

// measureCachedGets looks the users up repeatedly, once the cache holds their blocks.
func measureCachedGets(b *testing.B, data []byte, users [][]byte) {
	r, _ := openTable(b, data, ReaderOptions{Policies: []filter.Policy{bloom}, Cache: newCache()})
	get := func(i int) Result {
		var lk Lookup
		lk.Init(users[i&(1<<14-1)], base.MaxSeq)
		res, err := r.Get(&lk)
		if err != nil {
			b.Fatal(err)
		}
		return res
	}
	for i := range users {
		get(i)
	}
	passed := 0
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		if get(i).Filter == FilterPassed {
			passed++
		}
	}
	b.ReportMetric(float64(passed)/float64(b.N), "passed/op")
}

func BenchmarkGetCached(b *testing.B) {
	for _, n := range []int{1_000, 100_000} {
		es := benchEntries(n)
		for _, interval := range []int{1, 16} {
			data := buildTable(b, WriterOptions{Filter: bloom, Compression: Snappy, BlockRestartInterval: interval}, es)
			for _, present := range []bool{true, false} {
				b.Run(fmt.Sprintf("keys=%d/restart=%d/present=%v", n, interval, present), func(b *testing.B) {
					measureCachedGets(b, data, benchUsers(es, present))
				})
			}
		}
	}
}

// writeBench writes a table of es and discards its bytes.
func writeBench(b *testing.B, o WriterOptions, es entries) {
	w := NewWriter(io.Discard, o)
	for _, e := range es {
		if err := w.Add(e.Key, e.Value); err != nil {
			b.Fatal(err)
		}
	}
	if _, err := w.Finish(); err != nil {
		b.Fatal(err)
	}
}

func BenchmarkWriter(b *testing.B) {
	es := benchEntries(100_000)
	for _, kind := range []Compression{NoCompression, Snappy, Zstd} {
		for _, policy := range []filter.Policy{nil, bloom} {
			b.Run(fmt.Sprintf("compression=%d/filter=%v", kind, policy != nil), func(b *testing.B) {
				b.SetBytes(int64(len(es) * 124))
				b.ReportAllocs()
				for range b.N {
					writeBench(b, WriterOptions{Filter: policy, Compression: kind}, es)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(es)), "ns/entry")
			})
		}
	}
}

func BenchmarkIterate(b *testing.B) {
	es := benchEntries(100_000)
	data := buildTable(b, WriterOptions{Compression: Snappy}, es)
	for _, forward := range []bool{true, false} {
		for name, o := range map[string]IterOptions{
			"cached":    {},
			"readahead": {NoFillCache: true, ReadAhead: 256 << 10},
		} {
			b.Run(fmt.Sprintf("%s/forward=%v", name, forward), func(b *testing.B) {
				r, _ := openTable(b, data, ReaderOptions{Cache: newCache()})
				it := newIter(b, r, o)
				start, move := it.First, it.Next
				if !forward {
					start, move = it.Last, it.Prev
				}
				start()
				b.ReportAllocs()
				b.ResetTimer()
				for range b.N {
					if !move() {
						start()
					}
				}
				b.StopTimer()
				require.NoError(b, it.Close())
			})
		}
	}
}

func BenchmarkSeekCached(b *testing.B) {
	es := benchEntries(100_000)
	r, _ := openTable(b, buildTable(b, WriterOptions{Compression: Snappy}, es), ReaderOptions{Cache: newCache()})
	it := newIter(b, r, IterOptions{})
	for ok := it.First(); ok; ok = it.Next() {
	}
	rnd := rand.New(rand.NewPCG(2, 2))
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		if !it.SeekGE(es[rnd.IntN(len(es))].Key) {
			b.Fatal(it.Err())
		}
	}
	require.NoError(b, it.Close())
}
