package db_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/vfs"
)

// BenchmarkSeekForward measures what it costs to come to the key that is so many keys ahead: by a seek
// from the iterator's position, by as many calls of Next, and by a seek from elsewhere. The store is in
// the block cache, as one run or as tables of level 0 above a large run.
func BenchmarkSeekForward(all *testing.B) {
	const keys = 300_000
	for _, one := range []bool{true, false} {
		all.Run(fmt.Sprintf("one=%t", one), func(all *testing.B) {
			d := walkStore(all, keys, one)
			for _, ahead := range []int{1, 3, 10, 30, 100, 1000, 10_000} {
				for _, way := range []string{"seek", "next", "elsewhere"} {
					all.Run(fmt.Sprintf("ahead=%d/way=%s", ahead, way), func(b *testing.B) {
						benchmarkSeekForward(b, d, keys, ahead, way)
					})
				}
			}
		})
	}
}

// walkStore holds keys of 16 digits, settled in several levels or as one run, with values that compress to half.
func walkStore(b *testing.B, keys int, one bool) *db.DB {
	d, err := db.Open(b.TempDir(), &db.Options{
		Memtables: db.MemtableOptions{Size: 8 << 20}, Cache: db.CacheOptions{Size: 256 << 20},
	})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, d.Close()) })
	rnd := rand.New(rand.NewPCG(7, 7))
	value := make([]byte, 100)
	for _, n := range rnd.Perm(keys) {
		for i := range 50 {
			value[i] = byte(rnd.Uint32())
		}
		copy(value[50:], value[:50])
		require.NoError(b, d.Put(fmt.Appendf(nil, "%016d", 2*n), value, db.NoSync))
	}
	settle(b, d)
	if one {
		require.NoError(b, d.Compact(b.Context(), nil, nil))
	}
	return d
}

func benchmarkSeekForward(b *testing.B, d *db.DB, keys, ahead int, way string) {
	it, err := d.NewIterator(nil)
	require.NoError(b, err)
	defer func() { require.NoError(b, it.Close()) }()
	require.Len(b, walk(b, it, false), keys)
	rnd := rand.New(rand.NewPCG(1, 1))
	buf := make([]byte, 0, 32)
	at := keys
	b.ReportAllocs()
	for b.Loop() {
		if at += ahead; way == "elsewhere" {
			at = rnd.IntN(keys)
		}
		if at >= keys {
			at = 0
			it.First()
		}
		if way != "next" {
			buf = fmt.Appendf(buf[:0], "%016d", 2*at)
			it.SeekGE(buf)
			continue
		}
		for range ahead {
			it.Next()
		}
	}
}

// BenchmarkManyRanges measures short walks within many pairs of bounds, one after the other: with an
// iterator for each, with one whose bounds are set again, with clones, and by DB.All.
func BenchmarkManyRanges(all *testing.B) {
	const keys = 300_000
	d := walkStore(all, keys, false)
	for _, way := range []string{"new", "set bounds", "clone", "all"} {
		all.Run("way="+way, func(b *testing.B) { benchmarkManyRanges(b, d, keys, way) })
	}
}

func benchmarkManyRanges(b *testing.B, d *db.DB, keys int, way string) {
	it, err := d.NewIterator(nil)
	require.NoError(b, err)
	defer func() { require.NoError(b, it.Close()) }()
	rnd := rand.New(rand.NewPCG(1, 1))
	var lower, upper []byte
	b.ReportAllocs()
	for b.Loop() {
		at := rnd.IntN(keys)
		lower, upper = fmt.Appendf(lower[:0], "%016d", 2*at), fmt.Appendf(upper[:0], "%016d", 2*at+20)
		o, n, one := &db.IterOptions{LowerBound: lower, UpperBound: upper}, 0, it
		switch way {
		case "all":
			entries, failed := d.All(o)
			for range entries {
				n++
			}
			require.NoError(b, failed())
			continue
		case "new":
			one, err = d.NewIterator(o)
		case "set bounds":
			it.SetBounds(lower, upper)
		case "clone":
			one, err = it.Clone(o)
		}
		require.NoError(b, err)
		for one.Next() {
			n++
		}
		if one != it {
			require.NoError(b, one.Close())
		}
	}
}

// BenchmarkKeysOnly measures a step of a walk over keys with large values, in the block cache or read
// from files in memory.
func BenchmarkKeysOnly(b *testing.B) {
	for _, size := range []int{100, 1 << 10, 8 << 10, 64 << 10, 1 << 20} {
		for _, cache := range []int64{256 << 20, 1} {
			b.Run(fmt.Sprintf("value=%d/cached=%t", size, cache > 1), func(b *testing.B) {
				benchmarkKeysOnly(b, size, cache)
			})
		}
	}
}

func benchmarkKeysOnly(b *testing.B, size int, cache int64) {
	d := largeValues(b, 32<<20/size, size, cache)
	defer func() { require.NoError(b, d.Close()) }()
	for _, backward := range []bool{false, true} {
		for _, keysOnly := range []bool{false, true} {
			b.Run(fmt.Sprintf("backward=%t/keysOnly=%t", backward, keysOnly), func(b *testing.B) {
				benchmarkSteps(b, d, backward, keysOnly)
			})
		}
	}
}

func largeValues(b *testing.B, keys, size int, cache int64) *db.DB {
	d, err := db.Open("db", &db.Options{FS: vfs.NewMem(), Cache: db.CacheOptions{Size: cache}})
	require.NoError(b, err)
	value := make([]byte, size)
	rnd := rand.NewChaCha8([32]byte{})
	for n := range keys {
		_, _ = rnd.Read(value)
		require.NoError(b, d.Put(fmt.Appendf(nil, "%016d", n), value, db.NoSync))
	}
	require.NoError(b, d.Compact(b.Context(), nil, nil))
	return d
}

func benchmarkSteps(b *testing.B, d *db.DB, backward, keysOnly bool) {
	it, err := d.NewIterator(&db.IterOptions{KeysOnly: keysOnly})
	require.NoError(b, err)
	defer func() { require.NoError(b, it.Close()) }()
	begin, step := it.First, it.Next
	if backward {
		begin, step = it.Last, it.Prev
	}
	for ok := begin(); ok; ok = step() {
	}
	b.ReportAllocs()
	for b.Loop() {
		if !step() {
			begin()
		}
		_, _ = it.Key(), it.Value()
	}
}
