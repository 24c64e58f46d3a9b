package filter

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
// flag of 128 MB, for docs/performance.md. probe_kinds_test.go has the kinds.
//
//	go test -run '^$' -bench 'Probe|MakeFilter' -timeout 1h ./filter -probe.large

var largeProbes = flag.Bool("probe.large", false, "benchmarks: filters of 128 MB too, which take minutes and 4 GB of memory to make")

// askedAtOnce is how many questions are timed together: enough for the clock, and few
// enough that nothing else runs in the midst of most of them.
const askedAtOnce = 2048

// numberedKey is 16 bytes, as if at random.
type numberedKey [16]byte

func keyOf(number uint64) (key numberedKey) {
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

// probed is a filter that answers many questions one behind the other, each by a direct call
// that may overlap with the next, and returns how many may match.
type probed struct {
	sizeBytes  int
	hashAndAsk func(keys []numberedKey) int
	// ask is nil where the hash cannot be taken beforehand, by hash.
	ask  func(hashes []uint64) int
	hash func(key []byte) uint64
}

// inProgress is a filter that gets its keys.
type inProgress struct {
	add    func(keys []numberedKey)
	finish func() probed
}

// fill adds keys 0 to n-1 and calls timed with each step that belongs to the filter.
func (f inProgress) fill(n uint64, timed func(step func())) (p probed) {
	keys := make([]numberedKey, 0, 1<<14)
	for i := uint64(0); i < n; {
		keys = keys[:0]
		for ; i < n && len(keys) < cap(keys); i++ {
			keys = append(keys, keyOf(i))
		}
		timed(func() { f.add(keys) })
	}
	timed(func() { p = f.finish() })
	return p
}

// eachProbedKind calls run with each kind and size, and with how many keys that has.
func eachProbedKind(b *testing.B, run func(b *testing.B, kind probedKind, n uint64)) {
	for _, kind := range probedKinds {
		for _, size := range []uint64{2, 16, 128} {
			if size > 16 && !*largeProbes {
				continue
			}
			b.Run(fmt.Sprintf("%s/size=%dMB", kind.name, size), func(b *testing.B) {
				run(b, kind, uint64(float64(size<<23)/kind.bitsPerKey))
			})
		}
	}
}

// BenchmarkProbe asks filters for keys in them and for others, again and again for new ones. ns/op is of
// one question: the tenth percentile of slices of 2,048. What else the machine does is in the median.
func BenchmarkProbe(b *testing.B) {
	eachProbedKind(b, func(b *testing.B, kind probedKind, n uint64) {
		p := kind.begin(n).fill(n, func(step func()) { step() })
		for _, set := range []string{"absent", "present"} {
			keys, hashes := make([]numberedKey, askedAtOnce), make([]uint64, askedAtOnce)
			rng := rand.New(rand.NewPCG(7, 8))
			next := func() {
				for i := range keys {
					number := rng.Uint64N(n)
					if set == "absent" {
						number += firstAbsent
					}
					keys[i] = keyOf(number)
					if p.hash != nil {
						hashes[i] = p.hash(keys[i][:])
					}
				}
			}
			b.Run(set+"/part=hash+probe", func(b *testing.B) {
				reportSlices(b, next, func() int { return p.hashAndAsk(keys) })
				b.ReportMetric(8*float64(p.sizeBytes)/float64(n), "bits/key")
			})
			if p.ask != nil {
				b.Run(set+"/part=probe", func(b *testing.B) {
					reportSlices(b, next, func() int { return p.ask(hashes) })
				})
			}
		}
	})
}

// BenchmarkProbeHash is what all of a key's filters wait for.
func BenchmarkProbeHash(b *testing.B) {
	keys, rng := make([]numberedKey, askedAtOnce), rand.New(rand.NewPCG(7, 8))
	next := func() {
		for i := range keys {
			keys[i] = keyOf(rng.Uint64())
		}
	}
	b.Run("leveldb", func(b *testing.B) {
		reportSlices(b, next, func() (odd int) {
			for i := range keys {
				odd += int(bloomHash(keys[i][:]) & 1)
			}
			return odd
		})
	})
	b.Run("xxh3", func(b *testing.B) {
		reportSlices(b, next, func() (odd int) {
			for i := range keys {
				odd += int(cacheLineHash(keys[i][:]) & 1)
			}
			return odd
		})
	})
}

// reportSlices times ask, which answers askedAtOnce questions that next made.
func reportSlices(b *testing.B, next func(), ask func() int) {
	var times []float64
	yes := 0
	for b.Loop() {
		next()
		start := time.Now()
		yes += ask()
		times = append(times, float64(time.Since(start).Nanoseconds())/askedAtOnce)
	}
	slices.Sort(times)
	b.ReportMetric(times[len(times)/10], "ns/op")
	b.ReportMetric(times[len(times)/2], "median-ns")
	b.ReportMetric(100*float64(yes)/float64(len(times)*askedAtOnce), "%may")
}

// BenchmarkMakeFilter is the processor time and the memory that filters take to make, a key. ns/op is the
// least of the rounds.
func BenchmarkMakeFilter(b *testing.B) {
	eachProbedKind(b, func(b *testing.B, kind probedKind, n uint64) {
		if kind.isReference {
			b.Skip("it is another one's bytes")
		}
		best, memory := time.Duration(1<<62), uint64(0)
		for b.Loop() {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			took := time.Duration(0)
			kind.begin(n).fill(n, func(step func()) {
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
