package filtertest

import (
	"encoding/binary"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"
)

// This file measures what a question and a key cost in filters of 2 and 16 MB, and with the
// flag of 128 MB, for docs/performance.md. The kinds are in probe_kinds_test.go of each package.
//
//	go test -run '^$' -bench 'Probe|MakeFilter' -timeout 1h ./filter/... -probe.large

var largeProbes = flag.Bool("probe.large", false, "benchmarks: filters of 128 MB too, which take minutes and 4 GB of memory to make")

// AskedAtOnce is how many questions are timed together: enough for the clock, and few
// enough that nothing else runs in the midst of most of them.
const AskedAtOnce = 2048

// Key is 16 bytes, as if at random.
type Key [16]byte

// KeyOf returns key number number.
func KeyOf(number uint64) (key Key) {
	for half := range uint64(2) {
		h := (2*number + half + 1) * 0x9e3779b97f4a7c15 // SplitMix64
		h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
		h = (h ^ h>>27) * 0x94d049bb133111eb
		binary.LittleEndian.PutUint64(key[8*half:], h^h>>31)
	}
	return key
}

// firstAbsent is above the numbers of all keys that filters are made of.
const firstAbsent = 1 << 40

// Kind is a kind of filter that the benchmarks measure.
type Kind struct {
	Name        string
	BitsPerKey  float64 // by which a size becomes a number of keys
	IsReference bool    // to measure the machine, not us
	Begin       func(n uint64) InProgress
}

// Probed is a filter that answers many questions one behind the other, each by a direct call
// that may overlap with the next, and returns how many may match.
type Probed struct {
	SizeBytes  int
	HashAndAsk func(keys []Key) int
	// Ask is nil where the hash cannot be computed beforehand, by Hash.
	Ask  func(hashes []uint64) int
	Hash func(key []byte) uint64
}

// InProgress is a filter while keys are added.
type InProgress struct {
	Add    func(keys []Key)
	Finish func() Probed
}

// fill adds keys 0 to n-1 and calls timed with each step that belongs to the filter.
func (f InProgress) fill(n uint64, timed func(step func())) (p Probed) {
	keys := make([]Key, 0, 1<<14)
	for i := uint64(0); i < n; {
		keys = keys[:0]
		for ; i < n && len(keys) < cap(keys); i++ {
			keys = append(keys, KeyOf(i))
		}
		timed(func() { f.Add(keys) })
	}
	timed(func() { p = f.Finish() })
	return p
}

// eachKind calls run with each kind and size, and with how many keys that has.
func eachKind(b *testing.B, kinds []Kind, run func(b *testing.B, kind Kind, n uint64)) {
	for _, kind := range kinds {
		for _, size := range []uint64{2, 16, 128} {
			if size > 16 && !*largeProbes {
				continue
			}
			b.Run(fmt.Sprintf("%s/size=%dMB", kind.Name, size), func(b *testing.B) {
				run(b, kind, uint64(float64(size<<23)/kind.BitsPerKey))
			})
		}
	}
}

// Probe asks filters for keys in them and for others, again and again for new ones. ns/op is of
// one question: the tenth percentile of slices of 2,048. What else the machine does is in the median.
func Probe(b *testing.B, kinds []Kind) {
	eachKind(b, kinds, func(b *testing.B, kind Kind, n uint64) {
		p := kind.Begin(n).fill(n, func(step func()) { step() })
		for _, set := range []struct {
			name  string
			first uint64
		}{{"absent", firstAbsent}, {"present", 0}} {
			p.measure(b, set.name, newQuestions(p.Hash, set.first, n), n)
		}
	})
}

// measure asks a filter of n keys, with the hashing and, where it can, without.
func (p Probed) measure(b *testing.B, set string, q *questions, n uint64) {
	b.Run(set+"/part=hash+probe", func(b *testing.B) {
		ReportSlices(b, q.next, func() int { return p.HashAndAsk(q.keys) })
		b.ReportMetric(8*float64(p.SizeBytes)/float64(n), "bits/key")
	})
	if p.Ask != nil {
		b.Run(set+"/part=probe", func(b *testing.B) {
			ReportSlices(b, q.next, func() int { return p.Ask(q.hashes) })
		})
	}
}

// questions are keys to ask a filter for, AskedAtOnce of them, and their hashes.
type questions struct {
	keys   []Key
	hashes []uint64
	hash   func(key []byte) uint64 // nil: there are no hashes
	rng    *rand.Rand

	first, n uint64 // the keys are drawn from n, beginning with number first
}

func newQuestions(hash func(key []byte) uint64, first, n uint64) *questions {
	return &questions{
		keys:   make([]Key, AskedAtOnce),
		hashes: make([]uint64, AskedAtOnce),
		hash:   hash,
		rng:    rand.New(rand.NewPCG(7, 8)),
		first:  first,
		n:      n,
	}
}

// next draws new keys.
func (q *questions) next() {
	for i := range q.keys {
		q.keys[i] = KeyOf(q.first + q.rng.Uint64N(q.n))
		if q.hash != nil {
			q.hashes[i] = q.hash(q.keys[i][:])
		}
	}
}

// ReportSlices times ask, which answers AskedAtOnce questions that next made.
func ReportSlices(b *testing.B, next func(), ask func() int) {
	var times []float64
	yes := 0
	for b.Loop() {
		next()
		start := time.Now()
		yes += ask()
		times = append(times, float64(time.Since(start).Nanoseconds())/AskedAtOnce)
	}
	slices.Sort(times)
	b.ReportMetric(times[len(times)/10], "ns/op")
	b.ReportMetric(times[len(times)/2], "median-ns")
	b.ReportMetric(100*float64(yes)/float64(len(times)*AskedAtOnce), "%may")
}

// MakeFilter measures the processor time and the memory that filters take to make, a key. ns/op is the
// least of the rounds.
func MakeFilter(b *testing.B, kinds []Kind) {
	eachKind(b, kinds, func(b *testing.B, kind Kind, n uint64) {
		if kind.IsReference {
			b.Skip("it is another one's bytes")
		}
		best, memory := time.Duration(1<<62), uint64(0)
		for b.Loop() {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			took := time.Duration(0)
			kind.Begin(n).fill(n, func(step func()) {
				start := cpuTime()
				step()
				took += cpuTime() - start
			})
			runtime.ReadMemStats(&after)
			best, memory = min(best, took), after.TotalAlloc-before.TotalAlloc
		}
		b.ReportMetric(float64(best.Nanoseconds())/float64(n), "ns/op")
		b.ReportMetric(float64(memory)/float64(n), "allocated-B/key")
	})
}
