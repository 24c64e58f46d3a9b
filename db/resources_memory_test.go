//go:build !race

package db_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/vfs"
)

var sharedBytes = flag.Int64("resources.bytes", 12<<20, "bytes that the test of shared memory writes")

// 64 stores that are written to and read at the same time use no more memory than the Resources allow.
// Some are written to all the time and some seldom, so that idle ones have memory to give up.
func TestManyStoresStayWithinOneMemoryBound(t *testing.T) {
	const stores = 64
	const overhead = 256 << 10 // of a store, for its goroutines, its versions, and buffers of its files
	bytes := *sharedBytes
	if testing.Short() {
		bytes /= 8
	}
	r, err := db.NewResources(db.ResourcesOptions{MaxStores: stores, CacheSize: 16 << 20, MemtableSize: 16 << 20})
	require.NoError(t, err)
	dir := t.TempDir()
	before := int64(heapInUse())
	var all []*db.DB
	for i := range stores {
		d := openDir(t, filepath.Join(dir, fmt.Sprint(i)), &db.Options{FS: vfs.OS, Resources: r})
		t.Cleanup(func() { require.NoError(t, d.Close()) })
		all = append(all, d)
	}
	opened := int64(heapInUse()) - before
	most, written := opened, int64(0)
	for round := 0; written < bytes; round++ {
		for i, d := range all {
			if round%(1+i%8) != 0 { // the first store of eight writes eight times as often as the last
				continue
			}
			for n := range 200 {
				key := testKey((round*200 + n) * 7919 % 1_000_000)
				require.NoError(t, d.Put(key, testValue(n), db.NoSync))
				written += int64(len(key)) + 100
			}
			_, err := d.Get(testKey(round * 200 * 7919 % 1_000_000))
			require.NoError(t, err)
			requireWithin(t, r)
		}
		if round%16 == 0 {
			most = max(most, int64(heapInUse())-before)
		}
	}
	for _, d := range all {
		for range 2000 {
			_, err := d.Has(testKey(rand.IntN(1_000_000)))
			require.NoError(t, err)
		}
	}
	most = max(most, int64(heapInUse())-before)
	m := r.Metrics()
	t.Logf("%d MiB written; %.1f MiB with all stores open, %.1f MiB at most; %+v", written>>20, float64(opened)/(1<<20), float64(most)/(1<<20), *m)
	require.Less(t, most, m.Cache.Limit+m.Memtables.Limit+stores*overhead)
	require.LessOrEqual(t, m.Cache.Used, m.Cache.Limit)
}
