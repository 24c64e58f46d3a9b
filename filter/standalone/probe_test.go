package standalone

import (
	"bytes"
	"testing"

	"github.com/sievedb/sievedb/internal/test/filtertest"
)

var probedKinds = []filtertest.Kind{
	{Name: "counting", BitsPerKey: 38.3, Begin: func(n uint64) filtertest.InProgress {
		f, err := NewCounting(n, 0.01)
		return alone(f, err, (*Counting).Add)
	}},
	{Name: "scalable", BitsPerKey: 18, Begin: func(n uint64) filtertest.InProgress { // it grows once
		f, err := NewScalable(n/2, 0.01)
		return alone(f, err, func(f *Scalable, key []byte) { f.Add(key) })
	}},
	{Name: "static-7", BitsPerKey: 8, Begin: statics(0)},
	{Name: "static-7-known-negatives", BitsPerKey: 9.2, Begin: statics(1)},
}

// statics is the benchmark of a Static filter with so many known negatives for each key.
func statics(negatives int) func(uint64) filtertest.InProgress {
	return func(uint64) filtertest.InProgress {
		var keys, absent [][]byte
		return filtertest.InProgress{
			Add: func(added []filtertest.Key) {
				for i := range added {
					keys = append(keys, bytes.Clone(added[i][:]))
					for range negatives {
						absent = append(absent, append([]byte("not "), added[i][:]...))
					}
				}
			},
			Finish: func() filtertest.Probed {
				f, err := NewStatic(keys, absent, 7)
				return alone(f, err, nil).Finish()
			},
		}
	}
}

func BenchmarkProbe(b *testing.B)      { filtertest.Probe(b, probedKinds) }
func BenchmarkMakeFilter(b *testing.B) { filtertest.MakeFilter(b, probedKinds) }

// alone is the benchmark of a standalone filter.
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
