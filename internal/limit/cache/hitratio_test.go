package cache

import (
	"container/list"
	"fmt"
	"math"
	"math/rand/v2"
	"sort"
	"testing"
)

// The traces and the other policies of the table in shard.go:
//
//	go test -run '^$' -bench HitRatio -benchtime 1x ./internal/limit/cache

const simulated = 2000 // entries of size 1 that each policy may hold

// access is one step of a trace: a slot's number, used one or more times in a row.
// Accesses of scans do not count in the hit ratio.
type access struct {
	slot, touches int
	scan          bool
}

type zipf struct{ cumulative []float64 }

func newZipf(n int, exponent float64) zipf {
	z, sum := zipf{make([]float64, n)}, 0.0
	for i := range z.cumulative {
		sum += math.Pow(float64(i+1), -exponent)
		z.cumulative[i] = sum
	}
	return z
}

func (z zipf) next(rng *rand.Rand) int {
	n := len(z.cumulative)
	return min(n-1, sort.SearchFloat64s(z.cumulative, rng.Float64()*z.cumulative[n-1]))
}

// steps returns a trace of n counted accesses.
func steps(n int, slot func(i int) int) (trace []access) {
	for i := range n {
		trace = append(trace, access{slot: slot(i), touches: 1})
	}
	return trace
}

// withScans puts a scan of fresh slots between the accesses of the second half of each round of 60,000.
func withScans(trace []access, touches int) (both []access) {
	for i, a := range trace {
		both = append(both, a)
		if i%60000 >= 30000 {
			both = append(both, access{1_000_000 + i, touches, true})
		}
	}
	return both
}

// hotInScan warms a hot set of 0.8 times the cache, then adds a scan of ten times the cache.
func hotInScan(rng *rand.Rand, touches int) []access {
	trace := steps(5*simulated, func(int) int { return rng.IntN(simulated * 8 / 10) })
	for i := range 10 * simulated {
		trace = append(trace, access{1_000_000 + i, touches, true}, access{rng.IntN(simulated * 8 / 10), 1, false})
	}
	return trace
}

func traces() (names []string, traces [][]access) {
	rng := rand.New(rand.NewPCG(1, 2))
	add := func(name string, trace []access) { names, traces = append(names, name), append(traces, trace) }
	for _, exponent := range []float64{0.8, 0.99} {
		z := newZipf(20*simulated, exponent)
		add(fmt.Sprintf("zipf-%.2f", exponent), steps(300_000, func(int) int { return z.next(rng) }))
	}
	add("uniform", steps(200_000, func(int) int { return rng.IntN(2 * simulated) }))
	add("loop", steps(100_000, func(i int) int { return i % (simulated * 12 / 10) }))
	z := newZipf(10*simulated, 0.9)
	for _, touches := range []int{1, 30} {
		trace := steps(300_000, func(int) int { return z.next(rng) })
		add(fmt.Sprintf("zipf-0.90-scans-%d", touches), withScans(trace, touches))
	}
	for _, touches := range []int{1, 30} {
		add(fmt.Sprintf("hot-in-scan-%d", touches), hotInScan(rng, touches))
	}
	add("moving-hot-set", steps(300_000, func(i int) int {
		if rng.IntN(10) < 8 {
			return i/30_000*777 + rng.IntN(simulated*6/10)
		}
		return 100_000 + rng.IntN(10*simulated)
	}))
	return names, traces
}

// lru, sieve and s3fifo are textbook forms of the policies, for comparison only.
type lru struct {
	at    map[int]*list.Element
	queue list.List
}

func (p *lru) use(slot int) bool {
	if e := p.at[slot]; e != nil {
		p.queue.MoveToFront(e)
		return true
	}
	if len(p.at) == simulated {
		delete(p.at, p.queue.Remove(p.queue.Back()).(int))
	}
	p.at[slot] = p.queue.PushFront(slot)
	return false
}

type node struct{ slot, hits int }

type sieve struct {
	at    map[int]*list.Element
	queue list.List
	hand  *list.Element
}

func (p *sieve) use(slot int) bool {
	if e := p.at[slot]; e != nil {
		e.Value.(*node).hits = 1
		return true
	}
	for len(p.at) == simulated {
		if p.hand == nil {
			p.hand = p.queue.Back()
		}
		e := p.hand
		p.hand = e.Prev()
		if n := e.Value.(*node); n.hits > 0 {
			n.hits = 0
		} else {
			delete(p.at, n.slot)
			p.queue.Remove(e)
		}
	}
	p.at[slot] = p.queue.PushFront(&node{slot: slot})
	return false
}

type s3fifo struct {
	at          map[int]*node
	small, main list.List
	ghost       lru // as a set; never more than simulated
}

func (p *s3fifo) use(slot int) bool {
	if n := p.at[slot]; n != nil {
		n.hits = min(n.hits+1, 3)
		return true
	}
	for len(p.at) == simulated {
		p.evict()
	}
	n := &node{slot: slot}
	p.at[slot] = n
	if e := p.ghost.at[slot]; e != nil {
		p.ghost.queue.Remove(e)
		delete(p.ghost.at, slot)
		p.main.PushFront(n)
	} else {
		p.small.PushFront(n)
	}
	return false
}

func (p *s3fifo) evict() {
	if p.small.Len() > simulated/10 || p.main.Len() == 0 {
		n := p.small.Remove(p.small.Back()).(*node)
		if n.hits > 1 {
			n.hits = 0
			p.main.PushFront(n)
			return
		}
		delete(p.at, n.slot)
		p.ghost.use(n.slot)
		return
	}
	n := p.main.Remove(p.main.Back()).(*node)
	if n.hits > 0 {
		n.hits--
		p.main.PushFront(n)
		return
	}
	delete(p.at, n.slot)
}

// ours is the cache itself.
type ours struct {
	c     *Cache[int]
	slots map[int]*Slot[int]
}

func (p *ours) use(slot int) bool {
	s := p.slots[slot]
	if s == nil {
		s = new(Slot[int])
		p.slots[slot] = s
	}
	hit := true
	_, _ = p.c.GetOrLoad(s, func() (int, int64, error) {
		if hit = false; p.c.Pass(s, 1) {
			return 0, Passed, nil
		}
		return 0, 1, nil
	})
	return hit
}

func BenchmarkHitRatio(b *testing.B) {
	policies := []struct {
		name string
		make func() interface{ use(slot int) bool }
	}{
		{"lru", func() interface{ use(int) bool } { return &lru{at: map[int]*list.Element{}} }},
		{"sieve", func() interface{ use(int) bool } { return &sieve{at: map[int]*list.Element{}} }},
		{"s3fifo", func() interface{ use(int) bool } {
			return &s3fifo{at: map[int]*node{}, ghost: lru{at: map[int]*list.Element{}}}
		}},
		{"cache", func() interface{ use(int) bool } { return &ours{New[int](simulated, nil), map[int]*Slot[int]{}} }},
	}
	names, traces := traces()
	for i, trace := range traces {
		for _, policy := range policies {
			b.Run(fmt.Sprintf("trace=%s/policy=%s", names[i], policy.name), func(b *testing.B) {
				for b.Loop() {
					b.ReportMetric(100*hitRatio(policy.make(), trace), "hit%")
				}
			})
		}
	}
}

// hitRatio runs a trace and counts after its first tenth.
func hitRatio(p interface{ use(slot int) bool }, trace []access) float64 {
	hits, counted := 0, 0
	for i, a := range trace {
		hit := p.use(a.slot)
		for range a.touches - 1 {
			p.use(a.slot)
		}
		if !a.scan && i > len(trace)/10 {
			counted++
			if hit {
				hits++
			}
		}
	}
	return float64(hits) / float64(counted)
}

// roundOfTwoForms uses n slots from draw, and counts the misses and the hits of small forms.
func roundOfTwoForms(c *Cache[form], draw func() *Slot[form], small, large int64, n int) (misses, smalls int) {
	for range n {
		missed, form := twoForms(c, draw(), small, large)
		if missed {
			misses++
		} else if !form.large {
			smalls++
		}
	}
	return misses, smalls
}

// BenchmarkTwoForms repeats the table about values of two forms in cache.go:
//
//	go test -run '^$' -bench TwoForms -benchtime 1x ./internal/limit/cache
func BenchmarkTwoForms(b *testing.B) {
	const n, small, large, round = 31_000, 2380, 4400, 75_000 // a million keys of 116 bytes, their blocks
	for _, budget := range []int64{128, 90, 64, 11} {
		for _, exponent := range []float64{0, 0.8, 0.99} {
			b.Run(fmt.Sprintf("budget=%dMiB/zipf=%.2f", budget, exponent), func(b *testing.B) {
				rng := rand.New(rand.NewPCG(1, 2))
				z, order := newZipf(n, exponent), rng.Perm(n)
				c := NewWithForms(budget<<20, func(f *form) bool { return f.large }, nil)
				slots := make([]Slot[form], n)
				draw := func() *Slot[form] { return &slots[order[z.next(rng)]] }
				for i := 1; i <= 16; i++ {
					misses, smalls := roundOfTwoForms(c, draw, small, large, round)
					if i <= 3 || i == 16 {
						b.ReportMetric(float64(misses)*100/round, fmt.Sprintf("%%missed-%d", i))
						b.ReportMetric(float64(smalls)*100/round, fmt.Sprintf("%%small-%d", i))
					}
				}
			})
		}
	}
}
