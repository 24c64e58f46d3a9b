package rangefilter

import (
	"encoding/binary"
	"fmt"
	"testing"
)

// The cost of a query, and of a key in a filter, with 20,000 and with a million keys.
func BenchmarkRangeFilters(b *testing.B) {
	for _, n := range []int{20_000, 1_000_000} {
		keys := make([][]byte, n)
		for i := range keys {
			keys[i] = counterKey(uint64(i) << 30)
		}
		for _, p := range []Policy{NewPrefix(FixedPrefix(8), 16), NewGrafite(FixedPrefix(0), BigEndian(8), 16)} {
			b.Run(fmt.Sprintf("%s/keys=%d/build", p.Name(), n), func(b *testing.B) {
				for range b.N {
					makeFilter(b, p, keys)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/key")
			})
			probe, _ := p.NewProbe(makeFilter(b, p, keys))
			b.Run(fmt.Sprintf("%s/keys=%d/ask", p.Name(), n), func(b *testing.B) {
				passed := 0
				lower, upper := make([]byte, 8), make([]byte, 8)
				for i := range b.N {
					at := uint64(i)*0x9e3779b97f4a7c15>>4 | 1
					binary.BigEndian.PutUint64(lower, at)
					binary.BigEndian.PutUint64(upper, at+1)
					if probe.MayMatch(lower, upper) {
						passed++
					}
				}
				b.ReportMetric(float64(passed)/float64(b.N), "passed")
			})
		}
	}
}
