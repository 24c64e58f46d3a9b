package filter

import (
	"testing"

	"github.com/sievedb/sievedb/internal/filtertest"
)

var probedStandalone = []filtertest.Kind{
	{Name: "counting", BitsPerKey: 38.3, Begin: func(n uint64) filtertest.InProgress {
		f, err := NewCountingBloom(n, 0.01)
		return alone(f, err, (*CountingBloom).Add)
	}},
	{Name: "scalable", BitsPerKey: 18, Begin: func(n uint64) filtertest.InProgress { // it grows once
		f, err := NewScalableBloom(n/2, 0.01)
		return alone(f, err, func(f *ScalableBloom, key []byte) { f.Add(key) })
	}},
}

func BenchmarkStandaloneProbe(b *testing.B)      { filtertest.Probe(b, probedStandalone) }
func BenchmarkMakeStandaloneFilter(b *testing.B) { filtertest.MakeFilter(b, probedStandalone) }

// alone is a filter that stands alone.
func alone[F interface {
	MayContain(key []byte) bool
	SizeBytes() int
}](f F, err error, add func(f F, key []byte)) filtertest.InProgress {
	if err != nil {
		panic(err)
	}
	return filtertest.InProgress{
		Add: func(keys []filtertest.Key) {
			for i := range keys {
				add(f, keys[i][:])
			}
		},
		Finish: func() filtertest.Probed {
			return filtertest.Probed{SizeBytes: f.SizeBytes(), HashAndAsk: func(keys []filtertest.Key) (yes int) {
				for i := range keys {
					if f.MayContain(keys[i][:]) {
						yes++
					}
				}
				return yes
			}}
		},
	}
}
