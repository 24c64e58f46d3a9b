package filtertest

import (
	"flag"
	"testing"

	"github.com/stretchr/testify/require"
)

var denials = flag.Int("rates.denials", 1_000_000, "the number of added keys with which each kind of filter is queried")

// Denier is a kind of filter. Make makes a filter of the keys and returns its query function.
type Denier struct {
	Kind string
	Make func(keys [][]byte, bits int) func(key []byte) bool
}

// RequireNoneDenied makes filters of 1000 to 100,000 keys of every shape, or up to a million in
// long runs, with 4 to 20 bits per key, and queries each key.
func RequireNoneDenied(t *testing.T, deniers []Denier) {
	sizes := []int{1000, 10_000, 100_000}
	if *denials > 10_000_000 {
		sizes = append(sizes, 1_000_000)
	}
	asked, first := 0, uint64(0)
	var arena []byte
	var keys [][]byte
	for round := 0; asked < *denials; round++ {
		n := min(sizes[round%len(sizes)], *denials-asked)
		shape, bits := RateShapes[round%len(RateShapes)], 4+round%17
		arena, keys = arena[:0], keys[:0]
		for i := range uint64(n) {
			start := len(arena)
			arena = shape.Key(arena, first+i)
			keys = append(keys, arena[start:len(arena):len(arena)])
		}
		for _, d := range deniers {
			may := d.Make(keys, bits)
			for _, key := range keys {
				if !may(key) {
					require.Fail(t, "an added key is denied", "%s, %d keys, %d bits, %s: %x",
						d.Kind, n, bits, shape.Name, key)
				}
			}
		}
		asked, first = asked+n, first+uint64(n)
	}
	t.Logf("%d keys of each of %d kinds, 0 denied", asked, len(deniers))
}
