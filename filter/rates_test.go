package filter

import (
	"encoding/binary"
	"flag"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

var ratesLong = flag.Bool("rates.long", false, "measure false positives with all bits a key and up to ten million keys a filter: about ten minutes of a processor")

// soundHash are the shapes whose keys LevelDB's hash spreads as if they were random. Of
// the others more or fewer pass than theory can know.
var soundHash = map[string]bool{"random": true, "u64-little-endian": true, "path": true, "url of 60 to 70 bytes": true}

// rateShapes are keyShapes and one more.
var rateShapes = append(slices.Clone(keyShapes), struct {
	name string
	key  func(dst []byte, i uint64) []byte
}{"u64-big-endian, tens", func(dst []byte, i uint64) []byte { return binary.BigEndian.AppendUint64(dst, 5*i) }})

// rateSize is a number of keys a filter, and what is measured with it. Several filters
// of different keys, because how full one becomes varies.
type rateSize struct {
	keys, filters int
	asked         int // absent keys, of all filters together
	bits          []int
	shapes        []string // nil: all
}

func rateSizes() []rateSize {
	if !*ratesLong {
		few := []int{4, 7, 10, 13, 16, 20}
		return []rateSize{
			{keys: 1000, filters: 20, asked: 20_000, bits: few},
			{keys: 10_000, filters: 3, asked: 30_000, bits: few},
			{keys: 100_000, filters: 1, asked: 100_000, bits: few, shapes: []string{"random", "%016d"}},
		}
	}
	all := []int{4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20}
	return []rateSize{
		{keys: 1000, filters: 200, asked: 400_000, bits: all},
		{keys: 10_000, filters: 20, asked: 400_000, bits: all},
		{keys: 100_000, filters: 3, asked: 450_000, bits: all},
		{keys: 1_000_000, filters: 1, asked: 1_000_000, bits: all},
		{keys: 10_000_000, filters: 1, asked: 1_000_000, bits: []int{4, 7, 10, 13, 16, 20}, shapes: []string{"random", "u64-little-endian", "u64-big-endian", "%016d"}},
	}
}

// asked is what the filters of one cell answered: a kind, bits, a number of keys, a shape.
// Absent keys whose hash is a stored key's pass anyway and are not in it.
type askedCell struct {
	kind, cell string
	asked      int
	passed     int
	expected   float64
	// ofFilters is the relative variance of the mean rate of the filters, whose ones vary.
	ofFilters float64
}

// z is how many standard errors more have passed than expected. The roots make the Poisson
// distribution of few a nearly normal one (Anscombe, 1948).
func (c *askedCell) z() float64 {
	rate := c.expected / float64(c.asked)
	return 2 * (math.Sqrt(float64(c.passed)+0.375) - math.Sqrt(c.expected+0.375)) / math.Sqrt(1-rate+c.expected*c.ofFilters)
}

// rateTally counts how many cells of a kind have the prediction outside their intervals.
type rateTally struct {
	cells, beyond95, beyond999 int
	sum                        float64 // of z
	worst                      askedCell
	misses                     []askedCell // beyond 99.9 %
}

type rateTallies map[string]*rateTally

func (all rateTallies) add(c askedCell) {
	t := all[c.kind]
	if t == nil {
		t = &rateTally{worst: c}
		all[c.kind] = t
	}
	t.cells++
	t.sum += c.z()
	switch z := math.Abs(c.z()); {
	case z > 3.2905:
		t.beyond999++
		t.misses = append(t.misses, c)
		fallthrough
	case z > 1.9600:
		t.beyond95++
	}
	if math.Abs(c.z()) > math.Abs(t.worst.z()) {
		t.worst = c
	}
}

// require insists on as many misses as chance makes, give or take four of its standard
// deviations, and on no cell far off. Cells of the same keys are not independent, so
// that the spread is taken for twice as wide.
func (all rateTallies) require(t *testing.T) {
	most := func(cells int, part float64) int {
		mean := part * float64(cells)
		return int(mean + 8*math.Sqrt(mean*(1-part)) + 1)
	}
	for kind, r := range all {
		w := r.worst
		t.Logf("%s: of %d cells %d are beyond 95 %%, %d beyond 99.9 %%; mean z %.2f; the worst: %s, %.4f %% pass, %.4f %% predicted, z %.1f", kind, r.cells, r.beyond95, r.beyond999,
			r.sum/float64(r.cells), w.cell, 100*float64(w.passed)/float64(w.asked), 100*w.expected/float64(w.asked), w.z())
		for _, c := range r.misses {
			t.Logf("%s: beyond 99.9 %%: %s: %.4f %% pass, %.4f %% predicted, z %.1f", kind, c.cell, 100*float64(c.passed)/float64(c.asked), 100*c.expected/float64(c.asked), c.z())
		}
		require.LessOrEqual(t, r.beyond95, most(r.cells, 0.05), kind)
		require.LessOrEqual(t, r.beyond999, most(r.cells, 0.001), kind)
		require.Less(t, math.Abs(w.z()), 6.0, "%s: %+v", kind, w)
	}
}

// rateKeys are the hashes of the keys of one filter, and of the absent ones it is asked for.
type rateKeys struct {
	stored, absent       []uint64
	stored32, absent32   []uint32
	distinct32, sameHash int // 32-bit hashes of stored keys; absent keys with one of them
}

func hashedKeys(key func([]byte, uint64) []byte, table, keys, asked int) *rateKeys {
	k := &rateKeys{}
	first := uint64(table) * uint64(max(keys, asked))
	buf := make([]byte, 0, 96)
	for i := range uint64(keys) {
		buf = key(buf[:0], 2*(first+i))
		k.stored, k.stored32 = append(k.stored, cacheLineHash(buf)), append(k.stored32, bloomHash(buf))
	}
	for i := range uint64(asked) {
		buf = key(buf[:0], 2*(first+i)+1)
		k.absent, k.absent32 = append(k.absent, cacheLineHash(buf)), append(k.absent32, bloomHash(buf))
	}
	sorted := slices.Clone(k.stored32)
	slices.Sort(sorted)
	sorted = slices.Compact(sorted)
	k.distinct32 = len(sorted)
	k.absent32 = slices.DeleteFunc(k.absent32, func(h uint32) bool {
		_, same := slices.BinarySearch(sorted, h)
		if same {
			k.sameHash++
		}
		return same
	})
	return k
}

// schemePredicted remembers predictions: filters of one size have the same.
type schemePredicted map[[3]uint64]float64

// rate is that of keys without a stored key's hash.
func (m schemePredicted) rate(keys, bits uint64, k int) float64 {
	at := [3]uint64{keys, bits, uint64(k)}
	if _, ok := m[at]; !ok {
		same := SameHashRate(keys, 32)
		m[at] = (levelDBRate(keys, bits, k) - same) / (1 - same)
	}
	return m[at]
}

// bloomVariance is the relative variance of the rate of one filter: its share of ones
// varies, and the rate with the kth power.
func bloomVariance(keys, bits uint64, k int) float64 {
	load := float64(k) * float64(keys) / float64(bits)
	zeros := math.Exp(-load)
	ofRate := float64(k) / (1 - zeros)
	return ofRate * ofRate * zeros * (1 - (1+load)*zeros) / float64(bits)
}

// linesVariance is the same for cache lines, where the loads of the lines vary, too; the sum
// of the loads does not, so what is linear in them does not count.
func linesVariance(keys, lines uint64, k int) float64 {
	mean := float64(keys) / float64(lines)
	var w, r, rr, rj, jj float64
	for j := math.Max(0, math.Floor(mean-12*math.Sqrt(mean))); j < mean+12*math.Sqrt(mean)+5; j++ {
		log, _ := math.Lgamma(j + 1)
		p := math.Exp(j*math.Log(mean) - mean - log)
		rate := crowdedLineRate(j, k)
		w, r, rr, rj, jj = w+p, r+p*rate, rr+p*rate*rate, rj+p*rate*(j-mean), jj+p*(j-mean)*(j-mean)
	}
	r, rr, rj, jj = r/w, rr/w, rj/w, jj/w
	return ((rr-r*r-rj*rj/jj)/(r*r) + bloomVariance(uint64(mean+0.5), lineBits, k)) / float64(lines)
}

func askHashes(p Probe, hashes []uint64) (passed int) {
	for _, h := range hashes {
		if p.HashMayMatch(h) {
			passed++
		}
	}
	return passed
}

// cells asks the filters of tables of keys of one shape, with every number of bits.
func (s *rateSize) cells(shape string, tables []*rateKeys, predicted schemePredicted, into rateTallies) {
	for _, bits := range s.bits {
		of := func(kind string) *askedCell {
			return &askedCell{kind: kind, cell: fmt.Sprintf("%d keys, %d bits, %s", s.keys, bits, shape)}
		}
		bloom, lines := of("LevelDB's bloom"), of("cache lines")
		if !soundHash[shape] {
			bloom.kind = "LevelDB's bloom, other shapes"
		}
		for _, k := range tables {
			b := appendBloom(nil, k.stored32, bits)
			m, hashes := uint64(len(b)-1)*8, BloomHashes(bits)
			probe := makeBloomProbe(b[:len(b)-1], hashes)
			for _, h := range k.absent32 {
				if probe.HashMayMatch(uint64(h)) {
					bloom.passed++
				}
			}
			bloom.asked += len(k.absent32)
			bloom.expected += float64(len(k.absent32)) * predicted.rate(uint64(k.distinct32), m, hashes)
			bloom.ofFilters = bloomVariance(uint64(s.keys), m, hashes) / float64(len(tables))

			p := NewCacheLineBloomPolicy(bits)
			g := cacheLineGenerator{bitsPerKey: bits, hashes: slices.Clone(k.stored)}
			lines.passed += askHashes(p.NewProbe(g.AppendFilter(nil)), k.absent)
			lines.asked += len(k.absent)
			lines.expected += float64(len(k.absent)) * p.PredictedRate(uint64(s.keys))
			n, hashesOfLine := cacheLineShape(uint64(s.keys), bits)
			lines.ofFilters = linesVariance(uint64(s.keys), n, hashesOfLine) / float64(len(tables))
		}
		into.add(*bloom)
		into.add(*lines)
	}
	fuse := askedCell{kind: "binary fuse", cell: fmt.Sprintf("%d keys, %s", s.keys, shape)}
	for _, k := range tables {
		g := fuseGenerator{hashes: slices.Clone(k.stored)}
		fuse.passed += askHashes(FusePolicy{}.NewProbe(g.AppendFilter(nil)), k.absent)
		fuse.asked += len(k.absent)
		fuse.expected += float64(len(k.absent)) * FusePolicy{}.PredictedRate(uint64(s.keys))
	}
	into.add(fuse)
}

// Of each kind of filter for keys, in filters of different sizes, with different bits, asked for the
// absent neighbours of stored keys of every shape. The keys are the same on every run.
func TestMeasuredRatesAreThePredictedOnes(t *testing.T) {
	predicted, all := schemePredicted{}, rateTallies{}
	for _, s := range rateSizes() {
		for _, shape := range rateShapes {
			if s.shapes != nil && !slices.Contains(s.shapes, shape.name) {
				continue
			}
			var tables []*rateKeys
			same, asked := 0, 0
			for i := range s.filters {
				k := hashedKeys(shape.key, i, s.keys, s.asked/s.filters)
				tables = append(tables, k)
				same, asked = same+k.sameHash, asked+len(k.absent)
			}
			if same > 0 {
				t.Logf("%d keys, %s: %.3f %% of the absent keys have a stored one's hash of 32 bits", s.keys, shape.name, 100*float64(same)/float64(asked))
			}
			s.cells(shape.name, tables, predicted, all)
		}
	}
	if other := all["LevelDB's bloom, other shapes"]; other != nil {
		t.Logf("LevelDB's bloom on shapes that its hash does not spread at random: of %d cells %d are beyond 99.9 %%; the worst: %s, %.3f %% pass, %.3f %% predicted",
			other.cells, other.beyond999, other.worst.cell, 100*float64(other.worst.passed)/float64(other.worst.asked), 100*other.worst.expected/float64(other.worst.asked))
		delete(all, "LevelDB's bloom, other shapes")
	}
	all.require(t)
}
