package filter

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"sync"
)

// smallRates keeps the rates of small filters: a table of LevelDB has a thousand of few sizes.
var smallRates rateCache

type rateCache struct {
	sync.Mutex
	rates map[[3]uint64]float64 // by keys, bits and k; at most maxCachedRates
}

const maxCachedRates = 1 << 12

// between interpolates between numbers of keys that are at most an eighth apart, since the numbers of a
// table's filters, which are estimates, are all different.
func (c *rateCache) between(keys, m uint64, k int) float64 {
	step := uint64(1) << max(bits.Len64(keys)-4, 0)
	low, part := keys/step*step, float64(keys%step)/float64(step)
	if part == 0 {
		return c.of(keys, m, k)
	}
	return math.Pow(c.of(low, m, k), 1-part) * math.Pow(c.of(low+step, m, k), part)
}

func (c *rateCache) of(keys, m uint64, k int) float64 {
	at := [3]uint64{keys, m, uint64(k)}
	c.Lock()
	rate, ok := c.rates[at]
	c.Unlock()
	if ok {
		return rate
	}
	s := newDoubleHashing(keys, m, k)
	if m <= countedBits || m&(m-1) == 0 && keys <= m/4 {
		rate = s.countedRate(keys)
	} else {
		rate = s.computedRate()
	}
	c.Lock()
	defer c.Unlock()
	if c.rates == nil || len(c.rates) >= maxCachedRates {
		c.rates = map[[3]uint64]float64{}
	}
	c.rates[at] = rate
	return rate
}

// coincidingSteps returns the values of delta modulo m with which positions of a key may coincide: those
// of which a times the value, less what wrapping takes away, is a multiple of m for an a below k.
func coincidingSteps(m uint64, k int) []uint64 {
	var steps []uint64
	for a := uint64(1); a < uint64(k); a++ {
		for wraps := range a + 1 {
			for q := range a {
				if all := wraps*(hashValues%m)%m + q*m; all%a == 0 {
					steps = append(steps, all/a)
				}
			}
		}
	}
	slices.Sort(steps)
	return slices.Compact(steps)
}

// offsets are the distances of a key's positions from the first one, without repetitions.
type offsets struct {
	at []uint64
	m  uint64
	k  int
}

// set computes the offsets for a delta with the remainder step. The halves of wrapping are an h and
// a delta that wrap like the key's.
func (o *offsets) set(step, wrapping uint64) {
	h, delta, lost := uint32(wrapping>>32), uint32(wrapping), hashValues%o.m
	at := uint64(0)
	o.at = append(o.at[:0], 0)
	for range o.k - 1 {
		at += step
		if h += delta; h < delta {
			at += o.m - lost
		}
		for at >= o.m {
			at -= o.m
		}
		if !slices.Contains(o.at, at) {
			o.at = append(o.at, at)
		}
	}
}

// evenly returns the ith of points that are evenly spread over all pairs of h and delta.
func evenly(i uint64) uint64 { return i*0xc13fa9a9<<32 | i*0x91e10da5&(hashValues-1) }

// counter counts how many hashes of absent keys pass sample filters.
type counter struct {
	*doubleHashing
	filters []ring
	starts  ring // the multiples of divisor
	offsets offsets
}

// countedRate is the mean rate of some thousand sample filters, or some hundred large ones, whose rates
// differ less. It takes up to 30 milliseconds.
func (s *doubleHashing) countedRate(keys uint64) float64 {
	rng := rand.NewPCG(keys, s.m<<8|uint64(s.k)) // the same samples on every run
	c := counter{doubleHashing: s, filters: make([]ring, 16), starts: newRing(s.m), offsets: offsets{m: s.m, k: s.k}}
	for p := uint64(0); p < s.m; p += s.divisor {
		c.starts.set(uint32(p))
	}
	for i := range c.filters {
		c.filters[i] = newRing(s.m)
	}
	all, coinciding := make([]uint64, s.m), coincidingSteps(s.m, s.k)
	for i := range all {
		all[i] = uint64(i) * 0x9e3779b1 % s.m // a prime, so that each step is there
	}
	rounds := min(max(1<<15/s.m, 8), 256)
	each := max(rounds, 32) // how often a coinciding step is counted, each time with other wrapping
	n, own := min(max(1<<22/s.m, 1024), 4096), each*uint64(len(coinciding))
	var passed, passedOwn uint64
	for r := range rounds {
		for i := range c.filters {
			c.filters[i].fill(keys, s.k, rng)
		}
		passed += c.count(all, n*r/rounds, n*(r+1)/rounds, false)
		passedOwn += c.count(coinciding, own*r/rounds, own*(r+1)/rounds, true)
	}
	asked := float64(s.m/s.divisor) * float64(len(c.filters)) // for each step
	return (float64(passed)/float64(n) + float64(passedOwn)/float64(each)/float64(s.m)) / asked
}

// count returns how many hashes with the given steps pass the filters, of those whose positions coincide or
// of the others.
func (c *counter) count(steps []uint64, from, to uint64, coinciding bool) (passed uint64) {
	for i := from; i < to; i++ {
		step, visit := steps[i%uint64(len(steps))], i/uint64(len(steps))
		if c.offsets.set(step, evenly(visit+step*0x9e3779b97f4a7c15>>32)); len(c.offsets.at) < c.k != coinciding {
			continue
		}
		for f := range c.filters {
			passed += c.filters[f].count(c.offsets.at, &c.starts, c.firstOf(step))
		}
	}
	return passed
}

// firstOf returns the first position, modulo the divisor, of keys with a step.
func (s *doubleHashing) firstOf(step uint64) uint64 { return step << bloomRotate % s.divisor }

// ring is a bit array, repeated so that 64 bits from any position on are in two words.
type ring struct {
	words []uint64
	m     uint32
}

func newRing(m uint64) ring { return ring{make([]uint64, 2*m/64+3), uint32(m)} }

// fill replaces the bits with those of a filter of random keys.
func (r *ring) fill(keys uint64, k int, rng *rand.PCG) {
	clear(r.words)
	for range keys {
		h := uint32(rng.Uint64())
		delta := bits.RotateLeft32(h, -bloomRotate)
		for range k {
			r.set(h % r.m)
			h += delta
		}
	}
}

func (r *ring) set(p uint32) {
	r.words[p/64] |= 1 << (p % 64)
	p += r.m
	r.words[p/64] |= 1 << (p % 64)
}

func (r *ring) from(p uint64) uint64 {
	return r.words[p/64]>>(p%64) | r.words[p/64+1]<<(64-p%64)
}

// count returns for how many positions p, of those at which starts is set after first, the bits at all offsets
// from p are ones.
func (r *ring) count(offsets []uint64, starts *ring, first uint64) (n uint64) {
	m := uint64(r.m)
	for p := uint64(0); p < m; p += 64 {
		all := starts.from(p+m-first) & (^uint64(0) >> (64 - min(m-p, 64)))
		for _, at := range offsets {
			if all &= r.from(p + at); all == 0 {
				break
			}
		}
		n += uint64(bits.OnesCount64(all))
	}
	return n
}
