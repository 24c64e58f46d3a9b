package db

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/vfs"
)

const settledKeys = 1_000_000

// settledKey returns key n of a settled store, which holds the even ones. The key is the decimal
// number or 16 random bytes.
func settledKey(dst []byte, n uint64, random bool) []byte {
	if !random {
		return fmt.Appendf(dst[:0], "%016d", n)
	}
	rnd := rand.NewPCG(n, n)
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(dst[:0], rnd.Uint64()), rnd.Uint64())
}

// settledStore holds the even ones of 2 million settledKeys with values of 100 bytes that compress to
// half, in as many levels as random writes and compactions leave. Its block cache has room for all.
func settledStore(b *testing.B, random bool) *DB {
	d, err := Open("db", &Options{FS: vfs.NewMem(), Memtables: MemtableOptions{Size: 16 << 20}, Cache: CacheOptions{Size: 512 << 20}})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, d.Close()) })
	rnd := rand.New(rand.NewPCG(1, 1))
	var key []byte
	value := make([]byte, 100)
	for _, n := range rnd.Perm(settledKeys) {
		for i := range 50 {
			value[i] = byte(rnd.Uint64())
		}
		key = settledKey(key, 2*uint64(n), random)
		require.NoError(b, d.Put(key, value, NoSync))
	}
	settle(b, d)
	return d
}

// BenchmarkGetSettled looks up absent keys, present keys, and (hot) the same hundredth of the present
// keys in a settled store. All blocks are cached.
func BenchmarkGetSettled(b *testing.B) {
	for _, random := range []bool{false, true} {
		d := settledStore(b, random)
		for _, which := range []string{"absent", "hot", "present"} {
			b.Run(fmt.Sprintf("keys=%s/random=%t", which, random), func(b *testing.B) {
				benchSettled(b, d, which, random)
			})
		}
	}
}

func benchSettled(b *testing.B, d *DB, which string, random bool) {
	const group = 1024 // keys that are made while the clock is stopped
	among, odd := uint64(settledKeys), uint64(0)
	switch which {
	case "absent":
		odd = 1
	case "hot":
		among /= 100
	}
	rnd := rand.New(rand.NewPCG(2, 2))
	keys := make([][]byte, group)
	buf := make([]byte, 0, 128)
	look := func(n int) {
		for i := range keys[:n] {
			keys[i] = settledKey(keys[i], 2*rnd.Uint64N(among)+odd, random)
		}
		b.StartTimer()
		for _, key := range keys[:n] {
			if _, err := d.GetTo(buf[:0], key); (err == nil) != (odd == 0) {
				b.Fatal("wrong answer")
			}
		}
		b.StopTimer()
	}
	for range settledKeys / group { // fills the block cache
		look(group)
	}
	b.ReportAllocs()
	b.ResetTimer()
	for left := b.N; left > 0; left -= group {
		look(min(left, group))
	}
}
