package db

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/vfs"
)

// BenchmarkAskedInVain asks for absent keys again and again, some far more often than
// others, and counts what a memory of the keys that passed a filter in vain could save: false/op are false
// positives, again/op those of keys that had been one before in the same table, disk/op and
// again-disk/op the reads from disk of each, a lookup.
// docs/decisions.md has what came of it.
//
//	go test -run '^$' -bench AskedInVain -benchtime 1x ./db
func BenchmarkAskedInVain(b *testing.B) {
	const keys, absent, lookups = 1_000_000, 1_000_000, 300_000
	fs := vfs.NewMem()
	load := func() {
		d, err := Open("db", &Options{FS: fs, Memtables: MemtableOptions{Size: 16 << 20}})
		require.NoError(b, err)
		value := make([]byte, 100)
		rnd := rand.New(rand.NewPCG(1, 1))
		for _, i := range rnd.Perm(keys) {
			for j := range 50 {
				value[j] = byte(rnd.Uint32())
			}
			require.NoError(b, d.Put(fmt.Appendf(nil, "%016d", 2*i), value, NoSync))
		}
		settle(b, d)
		require.NoError(b, d.Close())
	}
	load()
	for _, cache := range []int64{-1, 1 << 20, 8 << 20, 64 << 20} {
		for _, exponent := range []float64{1.01, 1.2} {
			b.Run(fmt.Sprintf("cache=%dMiB/zipf=%.2f", cache>>20, exponent), func(b *testing.B) {
				for b.Loop() {
					d, err := Open("db", &Options{
						FS: fs, Cache: CacheOptions{Size: cache}, Filters: FilterOptions{Policy: filter.NewDualBloomPolicy(10)},
					})
					require.NoError(b, err)
					rnd := rand.New(rand.NewPCG(2, 2))
					zipf := rand.NewZipf(rnd, exponent, 1, absent-1)
					before := map[uint64]bool{}
					var all, again, disk, againDisk float64
					for n := range 2 * lookups {
						key := zipf.Uint64()
						x, err := d.Explain(fmt.Appendf(nil, "%016d", 2*(key*7919%absent)+1))
						require.NoError(b, err)
						for _, s := range x.Steps {
							if s.Filter != "maybe" || s.Found || n < lookups {
								before[key] = before[key] || s.Filter == "maybe"
								continue
							}
							all++
							if s.BlockFromDisk {
								disk++
							}
							if before[key] {
								again++
								if s.BlockFromDisk {
									againDisk++
								}
							}
							before[key] = true
						}
					}
					b.ReportMetric(all/lookups, "false/op")
					b.ReportMetric(again/lookups, "again/op")
					b.ReportMetric(disk/lookups, "disk/op")
					b.ReportMetric(againDisk/lookups, "again-disk/op")
					require.NoError(b, d.Close())
				}
			})
		}
	}
}
