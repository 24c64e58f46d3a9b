package rangefilter

import (
	"encoding/binary"
	"testing"

	"github.com/sievedb/sievedb/internal/test/filtertest"
)

var probedKinds = []filtertest.Kind{
	{Name: "prefix", BitsPerKey: 10, Begin: func(uint64) filtertest.InProgress { return ranges(NewPrefix(FixedPrefix(8), 10)) }},
	{Name: "grafite", BitsPerKey: 16, Begin: func(uint64) filtertest.InProgress { return ranges(NewGrafite(FixedPrefix(0), BigEndian(8), 16)) }},
}

func BenchmarkProbe(b *testing.B)      { filtertest.Probe(b, probedKinds) }
func BenchmarkMakeFilter(b *testing.B) { filtertest.MakeFilter(b, probedKinds) }

// ranges queries the keys that begin with the same eight bytes as a key, which are a prefix or a single number.
func ranges(policy Policy) filtertest.InProgress {
	g := policy.NewGenerator()
	return filtertest.InProgress{
		Add: func(keys []filtertest.Key) {
			for i := range keys {
				g.Add(keys[i][:])
			}
		},
		Finish: func() filtertest.Probed {
			filter, denied := g.AppendChecked(nil)
			probe, ok := policy.NewProbe(filter)
			if !ok || denied > 0 {
				panic("the policy cannot read its own filter")
			}
			return filtertest.Probed{SizeBytes: len(filter), HashAndAsk: func(keys []filtertest.Key) (yes int) {
				var upper filtertest.Key
				for i := range keys {
					binary.LittleEndian.PutUint64(upper[:], binary.LittleEndian.Uint64(keys[i][:]))
					upper[8] = 0xff
					if probe.MayMatch(keys[i][:8], upper[:9]) {
						yes++
					}
				}
				return yes
			}}
		},
	}
}
