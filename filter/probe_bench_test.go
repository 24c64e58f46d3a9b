package filter

import (
	"math/rand/v2"
	"testing"

	"github.com/sievedb/sievedb/internal/test/filtertest"
)

func BenchmarkProbe(b *testing.B)      { filtertest.Probe(b, probedKinds) }
func BenchmarkMakeFilter(b *testing.B) { filtertest.MakeFilter(b, probedKinds) }

// BenchmarkProbeHash measures the hash that the queries of all of a key's filters wait for.
func BenchmarkProbeHash(b *testing.B) {
	keys, rng := make([]filtertest.Key, filtertest.AskedAtOnce), rand.New(rand.NewPCG(7, 8))
	next := func() {
		for i := range keys {
			keys[i] = filtertest.KeyOf(rng.Uint64())
		}
	}
	b.Run("leveldb", func(b *testing.B) {
		filtertest.ReportSlices(b, next, func() (odd int) {
			for i := range keys {
				odd += int(bloomHash(keys[i][:]) & 1)
			}
			return odd
		})
	})
	b.Run("xxh3", func(b *testing.B) {
		filtertest.ReportSlices(b, next, func() (odd int) {
			for i := range keys {
				odd += int(cacheLineHash(keys[i][:]) & 1)
			}
			return odd
		})
	})
}
