package db

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/vfs"
)

const missKeys, absentKeys, missLookups = 1_000_000, 1_000_000, 300_000

// loadForMisses fills a new store with missKeys even numbers as keys.
func loadForMisses(b *testing.B, fs vfs.FS) {
	d, err := Open("db", &Options{FS: fs, Memtables: MemtableOptions{Size: 16 << 20}})
	require.NoError(b, err)
	value := make([]byte, 100)
	rnd := rand.New(rand.NewPCG(1, 1))
	for _, i := range rnd.Perm(missKeys) {
		for j := range 50 {
			value[j] = byte(rnd.Uint32())
		}
		require.NoError(b, d.Put(fmt.Appendf(nil, "%016d", 2*i), value, NoSync))
	}
	settle(b, d)
	require.NoError(b, d.Close())
}

// falsePositives counts all false positives, those of keys that had one before, and the disk reads
// of each kind.
type falsePositives struct {
	before                      map[uint64]bool
	all, again, disk, againDisk float64
}

// add adds one step of the lookup of key. If counted is false, it only records whether key was a
// false positive.
func (f *falsePositives) add(key uint64, s *ExplainStep, counted bool) {
	if s.Filter != "maybe" || s.Found || !counted {
		f.before[key] = f.before[key] || s.Filter == "maybe"
		return
	}
	disk := 0.0
	if s.BlockFromDisk {
		disk = 1
	}
	f.all++
	f.disk += disk
	if f.before[key] {
		f.again++
		f.againDisk += disk
	}
	f.before[key] = true
}

// BenchmarkRepeatedMisses looks up absent keys repeatedly, some far more often than others. It
// measures what a cache of the keys of earlier false positives could save. Each figure is per lookup:
// false/op are false positives, again/op those of keys that had one before, and disk/op and
// again-disk/op are the disk reads of each kind. Because the block cache has the block of the first
// wasted read, such a cache would save one read in 7,000 lookups when an eighth of the data is cached.
// So the store has none.
//
// go test -run '^$' -bench RepeatedMisses -benchtime 1x ./db
func BenchmarkRepeatedMisses(b *testing.B) {
	fs := vfs.NewMem()
	loadForMisses(b, fs)
	for _, cache := range []int64{-1, 1 << 20, 8 << 20, 64 << 20} {
		for _, exponent := range []float64{1.01, 1.2} {
			b.Run(fmt.Sprintf("cache=%dMiB/zipf=%.2f", cache>>20, exponent), func(b *testing.B) {
				for b.Loop() {
					measureMisses(b, fs, cache, exponent)
				}
			})
		}
	}
}

// measureMisses opens the store with a block cache of the given size, looks up absent keys and
// reports the counts.
func measureMisses(b *testing.B, fs vfs.FS, cache int64, exponent float64) {
	d, err := Open("db", &Options{
		FS: fs, Cache: CacheOptions{Size: cache}, Filters: FilterOptions{Policy: filter.NewDualBloomPolicy(10)},
	})
	require.NoError(b, err)
	rnd := rand.New(rand.NewPCG(2, 2))
	zipf := rand.NewZipf(rnd, exponent, 1, absentKeys-1)
	f := falsePositives{before: map[uint64]bool{}}
	for n := range 2 * missLookups {
		key := zipf.Uint64()
		x, err := d.Explain(fmt.Appendf(nil, "%016d", 2*(key*7919%absentKeys)+1))
		require.NoError(b, err)
		for i := range x.Steps {
			f.add(key, &x.Steps[i], n >= missLookups)
		}
	}
	b.ReportMetric(f.all/missLookups, "false/op")
	b.ReportMetric(f.again/missLookups, "again/op")
	b.ReportMetric(f.disk/missLookups, "disk/op")
	b.ReportMetric(f.againDisk/missLookups, "again-disk/op")
	require.NoError(b, d.Close())
}
