package db

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/vfs"
)

// benchKeys returns n random keys of 16 bytes whose last bit is 0. With absent set, the same keys
// have a last bit of 1.
func benchKeys(n int, absent bool) [][]byte {
	rnd := rand.New(rand.NewPCG(5, 5))
	keys := make([][]byte, n)
	for i := range keys {
		last := rnd.Uint64() &^ 1
		if absent {
			last |= 1
		}
		keys[i] = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, rnd.Uint64()), last)
	}
	return keys
}

// benchStore holds benchKeys(n, false) with values of 100 bytes in a memtable or, with inTables set,
// compacted into tables.
func benchStore(b *testing.B, n int, inTables bool) *DB {
	d, err := Open("db", &Options{
		FS: vfs.NewMem(), Memtables: MemtableOptions{Size: 64 << 20}, Cache: CacheOptions{Size: 512 << 20},
		Tables: TableOptions{Compression: NoCompression},
	})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, d.Close()) })
	value := make([]byte, 100)
	for _, key := range benchKeys(n, false) {
		require.NoError(b, d.Put(key, value, NoSync))
	}
	if inTables {
		require.NoError(b, d.Compact(b.Context(), nil, nil))
	}
	return d
}

// BenchmarkGetMemtable looks up keys of a store whose entries are all in one memtable.
func BenchmarkGetMemtable(b *testing.B) {
	const n = 100_000
	d := benchStore(b, n, false)
	for _, hit := range []bool{true, false} {
		keys := benchKeys(n, !hit)
		rand.New(rand.NewPCG(6, 6)).Shuffle(n, func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
		b.Run(fmt.Sprintf("hit=%t", hit), func(b *testing.B) {
			buf := make([]byte, 0, 128)
			b.ReportAllocs()
			for i := range b.N {
				var err error
				if buf, err = d.GetTo(buf[:0], keys[i%n]); (err == nil) != hit {
					b.Fatal("wrong answer")
				}
			}
		})
	}
}

// BenchmarkGetCached looks up the same few keys, whose blocks are cached, of tables.
func BenchmarkGetCached(b *testing.B) {
	d := benchStore(b, 10_000, true)
	for _, hit := range []bool{true, false} {
		keys := benchKeys(16, !hit)
		b.Run(fmt.Sprintf("hit=%t", hit), func(b *testing.B) {
			buf := make([]byte, 0, 128)
			b.ReportAllocs()
			for i := range b.N {
				var err error
				if buf, err = d.GetTo(buf[:0], keys[i%len(keys)]); (err == nil) != hit {
					b.Fatal("wrong answer")
				}
			}
		})
	}
}

// BenchmarkPutNoSyncDisk measures the whole write path with default options, except that writes are
// not synced: the log is a file, and memtables that fill up are flushed and compacted concurrently.
func BenchmarkPutNoSyncDisk(b *testing.B) {
	d, err := Open(b.TempDir(), nil)
	require.NoError(b, err)
	defer func() { require.NoError(b, d.Close()) }()
	keys, value := benchKeys(100_000, false), make([]byte, 100)
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		if err := d.Put(keys[i%len(keys)], value, NoSync); err != nil {
			b.Fatal(err)
		}
	}
}
