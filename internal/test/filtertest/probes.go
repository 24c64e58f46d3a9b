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

	"github.com/sievedb/sievedb/internal/test/damage"
)

// This file measures the cost of a query and of a key in filters of 2 and 16 MB, and with the flag
// of 128 MB, for docs/performance.md. The kinds are in probe_kinds_test.go of each package.
//
//	go test -run '^$' -bench 'Probe|MakeFilter' -timeout 1h ./filter/... -probe.large

var largeProbes = flag.Bool("probe.large", false,
	"benchmarks: also measure filters of 128 MB, which need minutes and 4 GB of memory to make")

// AskedAtOnce is how many queries are timed together: enough for the clock's resolution, and few
// enough that most of them are not interrupted.
const AskedAtOnce = 2048

// Key is 16 pseudo-random bytes.
type Key [16]byte

// KeyOf returns the key with the given number.
func KeyOf(number uint64) (key Key) {
	for half := range uint64(2) {
		h := (2*number + half + 1) * 0x9e3779b97f4a7c15 // SplitMix64
		h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
		h = (h ^ h>>27) * 0x94d049bb133111eb
		binary.LittleEndian.PutUint64(key[8*half:], h^h>>31)
	}
	return key
}

// firstAbsent is greater than the numbers of all keys in filters.
const firstAbsent = 1 << 40

// Kind is a kind of filter that the benchmarks measure.
type Kind struct {
	Name        string
	BitsPerKey  float64 // converts a size to a number of keys
	IsReference bool    // measures the machine, not our code
	Begin       func(n uint64) InProgress
}

// Probed is a filter that answers many queries in a row, each by a direct call that may overlap
// with the next, and returns how many may match.
type Probed struct {
	SizeBytes  int
	HashAndAsk func(keys []Key) int
	// Ask uses hashes computed beforehand by Hash; both are nil if that is impossible.
	Ask  func(hashes []uint64) int
	Hash func(key []byte) uint64
}

// InProgress is a filter while keys are added.
type InProgress struct {
	Add    func(keys []Key)
	Finish func() Probed
}

// fill adds keys 0 to n-1 and calls timed for each step that belongs to making the filter.
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

// eachKind calls run for each kind and size, with the number of keys for that size.
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

// Probe queries filters for random present and absent keys. ns/op is the time of one query: the
// tenth percentile of slices of 2,048 queries. The median includes other activity of the machine.
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

// measure queries a filter of n keys, with the hashing and, if possible, without.
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

// questions are AskedAtOnce keys to query, and their hashes.
type questions struct {
	keys   []Key
	hashes []uint64
	hash   func(key []byte) uint64 // nil if there are no hashes
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

// ReportSlices times ask, which answers the AskedAtOnce queries made by next.
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

// MakeFilter measures the processor time and the memory per key for making filters. ns/op is the minimum of the rounds.
func MakeFilter(b *testing.B, kinds []Kind) {
	eachKind(b, kinds, func(b *testing.B, kind Kind, n uint64) {
		if kind.IsReference {
			b.Skip("a reference makes no filter of ours")
		}
		best, memory := time.Duration(1<<62), uint64(0)
		for b.Loop() {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			took := time.Duration(0)
			kind.Begin(n).fill(n, func(step func()) {
				start := damage.CPUTime()
				step()
				took += damage.CPUTime() - start
			})
			runtime.ReadMemStats(&after)
			best, memory = min(best, took), after.TotalAlloc-before.TotalAlloc
		}
		b.ReportMetric(float64(best.Nanoseconds())/float64(n), "ns/op")
		b.ReportMetric(float64(memory)/float64(n), "allocated-B/key")
	})
}
