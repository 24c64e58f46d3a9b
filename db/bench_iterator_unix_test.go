//go:build unix

package db

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

const scanKeys = 500_000

// scanStore holds scanKeys keys of 16 digits, settled in several levels, with values of 100 bytes
// that Snappy compresses to half. Half of the store fits in the block cache.
func scanStore(b *testing.B) *DB {
	d, err := Open(b.TempDir(), &Options{Memtables: MemtableOptions{Size: 8 << 20}, Cache: CacheOptions{Size: 32 << 20}})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, d.Close()) })
	rnd := rand.New(rand.NewPCG(7, 7))
	value := make([]byte, 100)
	for _, n := range rnd.Perm(scanKeys) {
		for i := range 50 {
			value[i] = byte(rnd.Uint32())
		}
		copy(value[50:], value[:50])
		require.NoError(b, d.Put(scanKey(n), value, NoSync))
	}
	settle(b, d)
	return d
}

func scanKey(n int) []byte { return fmt.Appendf(nil, "%016d", 2*n) }

// BenchmarkIterator measures the movements of an iterator over scanStore. cpu-ns/op is the processor
// time of all threads, including the garbage collector's.
func BenchmarkIterator(b *testing.B) {
	d := scanStore(b)
	seek := func(b *testing.B, it *Iterator, n, nexts int) {
		ok := it.SeekGE(scanKey(n))
		for range nexts {
			ok = ok && it.Next()
		}
		if !ok && n+nexts < scanKeys {
			b.Fatal("the scan ended early")
		}
	}
	open := func(b *testing.B) *Iterator {
		it, err := d.NewIterator(nil)
		require.NoError(b, err)
		return it
	}
	run := func(name string, do func(b *testing.B)) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			before := processorTime()
			do(b)
			b.ReportMetric(float64(processorTime()-before)/float64(b.N), "cpu-ns/op")
		})
	}
	run("new", func(b *testing.B) {
		for b.Loop() {
			require.NoError(b, open(b).Close())
		}
	})
	for _, nexts := range []int{0, 10, 100} {
		run(fmt.Sprintf("new, seek, next=%d", nexts), func(b *testing.B) {
			rnd := rand.New(rand.NewPCG(8, 8))
			for b.Loop() {
				it := open(b)
				seek(b, it, rnd.IntN(scanKeys), nexts)
				require.NoError(b, it.Close())
			}
		})
		run(fmt.Sprintf("seek, next=%d", nexts), func(b *testing.B) {
			rnd, it := rand.New(rand.NewPCG(8, 8)), open(b)
			for b.Loop() {
				seek(b, it, rnd.IntN(scanKeys), nexts)
			}
			require.NoError(b, it.Close())
		})
	}
	run("seek nearby", func(b *testing.B) {
		it := open(b)
		n := 0
		for b.Loop() {
			seek(b, it, n, 0)
			n = (n + 3) % scanKeys
		}
		require.NoError(b, it.Close())
	})
	walks := []struct {
		name        string
		begin, step func(*Iterator) bool
	}{
		{"next", (*Iterator).First, (*Iterator).Next},
		{"prev", (*Iterator).Last, (*Iterator).Prev},
	}
	for _, walk := range walks {
		run(walk.name, func(b *testing.B) {
			it := open(b)
			bytes := 0
			for b.Loop() {
				if !walk.step(it) && !walk.begin(it) {
					b.Fatal(it.Err())
				}
				bytes += len(it.Key()) + len(it.Value())
			}
			require.NoError(b, it.Close())
		})
	}
}
