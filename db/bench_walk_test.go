package db

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// BenchmarkWalk measures a step of a repeated walk over all keys. Values of 100 bytes compress to half
// with Snappy. The blocks of a small (near) or large (cached) store are in the block cache, or they are
// read from files in the page cache. The store is one run, or tables of level 0 above a large run.
func BenchmarkWalk(all *testing.B) {
	for _, place := range []struct {
		name          string
		keys          int
		buffer, cache int
	}{
		{"near", 10_000, 256 << 10, 64 << 20},
		{"cached", 300_000, 8 << 20, 256 << 20},
		{"read", 300_000, 8 << 20, 1},
	} {
		for _, one := range []bool{true, false} {
			var d *DB // opened by the first benchmark that runs
			for _, backward := range []bool{false, true} {
				all.Run(fmt.Sprintf("place=%s/one=%t/backward=%t", place.name, one, backward), func(b *testing.B) {
					if d == nil {
						d = walkStore(all, place.keys, &Options{
							Memtables: MemtableOptions{Size: place.buffer}, Cache: CacheOptions{Size: int64(place.cache)},
						}, one)
					}
					benchmarkWalk(b, d, place.keys, backward)
				})
			}
			if d != nil {
				require.NoError(all, d.Close())
			}
		}
	}
}

func walkStore(b *testing.B, keys int, o *Options, one bool) *DB {
	d, err := Open(b.TempDir(), o)
	require.NoError(b, err)
	rnd := rand.New(rand.NewPCG(7, 7))
	value := make([]byte, 100)
	for _, n := range rnd.Perm(keys) {
		for i := range 50 {
			value[i] = byte(rnd.Uint32())
		}
		copy(value[50:], value[:50])
		require.NoError(b, d.Put(fmt.Appendf(nil, "%016d", 2*n), value, NoSync))
	}
	settle(b, d)
	if one {
		require.NoError(b, d.Compact(b.Context(), nil, nil))
	}
	return d
}

func benchmarkWalk(b *testing.B, d *DB, keys int, backward bool) {
	it, err := d.NewIterator(nil)
	require.NoError(b, err)
	defer func() { require.NoError(b, it.Close()) }()
	begin, step := it.First, it.Next
	if backward {
		begin, step = it.Last, it.Prev
	}
	require.Len(b, walk(b, it, backward), keys)
	b.ReportAllocs()
	for b.Loop() {
		if !step() {
			begin()
		}
		_, _ = it.Key(), it.Value()
	}
}
