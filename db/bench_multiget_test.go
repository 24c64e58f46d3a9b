package db_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/vfs"
)

// benchKeys returns n random keys of 16 bytes whose last bit is 0. With absent set, the same keys have a last bit of 1.
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

// benchStore holds benchKeys(n, false) with values of 100 bytes, compacted into tables.
func benchStore(b *testing.B, n int) *db.DB {
	d, err := db.Open("db", &db.Options{
		FS: vfs.NewMem(), Memtables: db.MemtableOptions{Size: 64 << 20}, Cache: db.CacheOptions{Size: 512 << 20},
		Tables: db.TableOptions{Compression: db.NoCompression},
	})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, d.Close()) })
	value := make([]byte, 100)
	for _, key := range benchKeys(n, false) {
		require.NoError(b, d.Put(key, value, db.NoSync))
	}
	require.NoError(b, d.Compact(b.Context(), nil, nil))
	return d
}

// BenchmarkMultiGet looks up groups of keys, all in the block cache, with MultiGet and with a loop of Gets. Times are
// per key. tenth-ns is the tenth percentile of the groups' times, which leaves out most of the other load on the
// machine. The keys of a group are drawn at random or are neighbours in ascending order.
func BenchmarkMultiGet(b *testing.B) {
	const n = 500_000
	d := benchStore(b, n)
	for _, hit := range []bool{true, false} {
		random := benchKeys(n, !hit)
		rand.New(rand.NewPCG(7, 7)).Shuffle(n, func(i, j int) { random[i], random[j] = random[j], random[i] })
		for _, key := range random {
			if ok, err := d.Has(key); err != nil || ok != hit {
				b.Fatal("wrong answer", err)
			}
		}
		near := slices.Clone(random)
		slices.SortFunc(near, db.BytewiseComparer.Compare)
		for _, order := range []struct {
			name string
			keys [][]byte
		}{{"random", random}, {"neighbours", near}} {
			for _, size := range []int{10, 100, 1000} {
				for _, multi := range []bool{false, true} {
					b.Run(fmt.Sprintf("hit=%t/order=%s/group=%d/multi=%t", hit, order.name, size, multi), func(b *testing.B) {
						b.ReportAllocs()
						benchGroups(b, d, order.keys, size, multi)
					})
				}
			}
		}
	}
}

func benchGroups(b *testing.B, d *db.DB, keys [][]byte, size int, multi bool) {
	at := 0
	values := make([][]byte, size)
	var times []time.Duration
	for done := 0; done < b.N; done += size {
		start := time.Now()
		if at += size; at > len(keys) {
			at = size
		}
		group := keys[at-size : at]
		var err error
		if multi {
			if values, err = d.MultiGet(group); err != nil {
				b.Fatal(err)
			}
		} else {
			for i, key := range group {
				if values[i], err = d.Get(key); err != nil && err != db.ErrNotFound {
					b.Fatal(err)
				}
			}
		}
		times = append(times, time.Since(start))
	}
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)/10].Nanoseconds())/float64(size), "tenth-ns")
}
