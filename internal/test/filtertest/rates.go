package filtertest

import (
	"flag"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// Long selects measurements with all numbers of bits per key.
var Long = flag.Bool("rates.long", false, "measure false-positive rates with all numbers of bits per key and up to "+
	"ten million keys per filter, which takes about ten minutes of processor time")

// RateSize is a number of keys per filter, and the measurements with it. It uses several filters of
// different keys, because the number of ones in a filter varies.
type RateSize struct {
	Keys, Filters int
	Asked         int // absent keys, of all filters together
	Bits          []int
	Shapes        []string // nil: all
}

// Cell has the results of the filters of one cell: a kind, bits, a number of keys, a shape. It does
// not include absent keys with a stored key's hash, which always match.
type Cell struct {
	Kind, Name string
	Asked      int
	Passed     int
	Expected   float64
	// OfFilters is the relative variance of the mean rate of the filters, whose ones vary.
	OfFilters float64
}

// z is the number of standard errors by which more keys matched than expected. The square roots make
// the Poisson distribution of small numbers nearly normal (Anscombe, 1948).
func (c *Cell) z() float64 {
	rate := c.Expected / float64(c.Asked)
	return 2 * (math.Sqrt(float64(c.Passed)+0.375) - math.Sqrt(c.Expected+0.375)) / math.Sqrt(1-rate+c.Expected*c.OfFilters)
}

// Tally counts the cells of a kind whose prediction is outside their interval.
type Tally struct {
	Cells, beyond95, Beyond999 int
	sum                        float64 // of z
	Worst                      Cell
	misses                     []Cell // beyond 99.9 %
}

// Tallies are the tallies of all kinds.
type Tallies map[string]*Tally

// Add adds a cell.
func (all Tallies) Add(c Cell) {
	t := all[c.Kind]
	if t == nil {
		t = &Tally{Worst: c}
		all[c.Kind] = t
	}
	t.Cells++
	t.sum += c.z()
	switch z := math.Abs(c.z()); {
	case z > 3.2905:
		t.Beyond999++
		t.misses = append(t.misses, c)
		fallthrough
	case z > 1.9600:
		t.beyond95++
	}
	if math.Abs(c.z()) > math.Abs(t.Worst.z()) {
		t.Worst = c
	}
}

// Require requires as many misses as expected by chance, within four standard deviations, and no cell far off. Cells of
// the same keys are not independent, so the assumed deviation is twice as large.
func (all Tallies) Require(t *testing.T) {
	most := func(cells int, part float64) int {
		mean := part * float64(cells)
		return int(mean + 8*math.Sqrt(mean*(1-part)) + 1)
	}
	for kind, r := range all {
		w := r.Worst
		t.Logf("%s: of %d cells %d exceed 95 %%, %d exceed 99.9 %%; mean z %.2f; worst: %s, %.4f %% match, "+
			"%.4f %% predicted, z %.1f", kind, r.Cells, r.beyond95, r.Beyond999,
			r.sum/float64(r.Cells), w.Name, 100*float64(w.Passed)/float64(w.Asked), 100*w.Expected/float64(w.Asked), w.z())
		for _, c := range r.misses {
			t.Logf("%s: exceeds 99.9 %%: %s: %.4f %% match, %.4f %% predicted, z %.1f", kind, c.Name,
				100*float64(c.Passed)/float64(c.Asked), 100*c.Expected/float64(c.Asked), c.z())
		}
		require.LessOrEqual(t, r.beyond95, most(r.Cells, 0.05), kind)
		require.LessOrEqual(t, r.Beyond999, most(r.Cells, 0.001), kind)
		require.Less(t, math.Abs(w.z()), 6.0, "%s: %+v", kind, w)
	}
}

// Sigmas is how many standard errors a measured rate may be off. The tests of the filters make
// about 100 comparisons; one of them fails by chance in one of 16 million runs.
const Sigmas = 6

// BloomVariance is the relative variance of the rate of one filter: its share of ones varies, and
// the rate with the kth power of it.
func BloomVariance(keys, bits uint64, k int) float64 {
	load := float64(k) * float64(keys) / float64(bits)
	zeros := math.Exp(-load)
	ofRate := float64(k) / (1 - zeros)
	return ofRate * ofRate * zeros * (1 - (1+load)*zeros) / float64(bits)
}

// LinesVariance is the same for cache lines, whose loads also vary. The sum of the loads does not,
// so the variance that is linear in them does not count. lineRate is the rate of one line.
func LinesVariance(keys, lines uint64, k int, lineRate func(keys uint64, k int) float64) float64 {
	const lineBits = 512
	mean := float64(keys) / float64(lines)
	var w, r, rr, rj, jj float64
	for j := math.Max(0, math.Floor(mean-12*math.Sqrt(mean))); j < mean+12*math.Sqrt(mean)+5; j++ {
		log, _ := math.Lgamma(j + 1)
		p := math.Exp(j*math.Log(mean) - mean - log)
		rate := lineRate(uint64(j), k)
		w, r, rr, rj, jj = w+p, r+p*rate, rr+p*rate*rate, rj+p*rate*(j-mean), jj+p*(j-mean)*(j-mean)
	}
	r, rr, rj, jj = r/w, rr/w, rj/w, jj/w
	return ((rr-r*r-rj*rj/jj)/(r*r) + BloomVariance(uint64(mean+0.5), lineBits, k)) / float64(lines)
}

// kindSizes are the RateSizes for kinds of filters that are not made of hashes.
func kindSizes() []RateSize {
	if !*Long {
		few := []int{4, 10, 16}
		return []RateSize{{Keys: 1000, Filters: 10, Asked: 20_000, Bits: few}, {Keys: 10_000, Filters: 2, Asked: 20_000, Bits: few}}
	}
	all := []int{4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20}
	return []RateSize{
		{Keys: 1000, Filters: 100, Asked: 400_000, Bits: all},
		{Keys: 10_000, Filters: 10, Asked: 400_000, Bits: all},
		{Keys: 100_000, Filters: 1, Asked: 400_000, Bits: all},
		{Keys: 1_000_000, Filters: 1, Asked: 400_000, Bits: []int{4, 7, 10, 13, 16, 20}},
		{Keys: 10_000_000, Filters: 1, Asked: 400_000, Bits: []int{10}},
	}
}

// kindShapes are shapes of keys whose first eight bytes are unique.
var kindShapes = []string{"random", "u64-big-endian", "u64-little-endian"}

// EachCell calls fn for each filter of each cell. The keys with even numbers below 2 × keys are stored.
func EachCell(kind string, fn func(c *Cell, s RateSize, bits int, key func(i uint64) []byte)) Tallies {
	all := Tallies{}
	for _, s := range kindSizes() {
		for _, shape := range kindShapes {
			for _, bits := range s.Bits {
				c := Cell{Kind: kind, Name: fmt.Sprintf("%d keys, %d bits, %s", s.Keys, bits, shape)}
				eachFilter(s, shape, func(key func(i uint64) []byte) { fn(&c, s, bits, key) })
				if c.Asked > 0 {
					all.Add(c)
				}
			}
		}
	}
	return all
}

// eachFilter calls fn for each filter of a cell with a function that returns the keys of that
// filter, of the given shape. Each key is valid until the next call.
func eachFilter(s RateSize, shape string, fn func(key func(i uint64) []byte)) {
	shaped, buf := shapeNamed(shape), make([]byte, 0, 32)
	for f := range uint64(s.Filters) {
		first := f * uint64(max(s.Keys, s.Asked/s.Filters))
		fn(func(i uint64) []byte {
			buf = shaped(buf[:0], 2*first+i)
			return buf
		})
	}
}

// Ask queries a filter for the keys with odd numbers.
func (c *Cell) Ask(s RateSize, rate float64, key func(uint64) []byte, may func([]byte) bool) {
	n := s.Asked / s.Filters
	for i := range uint64(n) {
		if may(key(2*i + 1)) {
			c.Passed++
		}
	}
	c.Asked, c.Expected = c.Asked+n, c.Expected+rate*float64(n)
}
