package filter

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sievedb/sievedb/internal/base/hugepages"
	"github.com/sievedb/sievedb/internal/test/damage"
	"github.com/sievedb/sievedb/internal/test/filtertest"
)

// The lab compares the kinds of filters at the sizes of small and large tables. One line for each
// kind and number of keys has all figures:
//
//	go test -run '^$' -bench Lab -benchtime 1x ./filter
//	go test -run '^$' -bench Lab/.*/keys=100000000 -benchtime 1x -timeout 1h ./filter -lab.large
//
// The figures of a line, times in ns:
//
//	bits/key, %false           size, and measured false-positive rate
//	build-ns, build-B/key      CPU time with a used generator, hashing included; what a new one allocates
//	hot-absent, hot-present    a query of a filter that is queried all the time
//	cold-absent, cold-present  a query of one of many filters, 256 MB together, on large pages
//	…-chained                  the same if a query can begin only after the answer of the query before it
//	…-apart                    the same with so much other work between queries that two cannot overlap
//
// Queries have a hash and call the filter's Probe. Those of the first kind overlap. A chained query waits for the
// answer, unless the processor guesses it: a filter that branches on its bits lets it do so, one without branches does
// not. In a store, queries are apart, and the answer is guessed by the code that uses it. Times are tenth percentiles
// of slices of 2,048 queries; those of the other work are subtracted.

var labLarge = flag.Bool("lab.large", false,
	"benchmarks: the lab also measures filters of 100 million keys, which need minutes and 8 GB of memory")

// labPolicy is what the lab needs of a policy.
type labPolicy interface {
	GeneratorPolicy
	HashPolicy
}

var labKinds = []struct {
	name   string
	policy labPolicy
}{
	{"leveldb-10", NewBloomPolicy(10)},
	{"line-8", NewCacheLineBloomPolicy(8)},
	{"line-10", NewCacheLineBloomPolicy(10)},
	{"line-12", NewCacheLineBloomPolicy(12)},
	{"fuse-4", NewFusePolicy(4)},
	{"fuse-7", NewFusePolicy(7)},
	{"fuse-8", NewFusePolicy(8)},
	{"fuse-12", NewFusePolicy(12)},
}

const (
	labColdBytes   = 256 << 20
	labSlices      = 200
	labFirstAbsent = 1 << 40 // greater than the numbers of all keys in filters
)

func BenchmarkLab(b *testing.B) {
	for _, kind := range labKinds {
		for _, n := range []int{1e4, 2e4, 1e5, 1e6, 1e7, 1e8} { // 20,000: a table of 2 MiB
			if n <= 1e7 || *labLarge {
				b.Run(fmt.Sprintf("%s/keys=%d", kind.name, n), func(b *testing.B) { labRow(b, kind.policy, n) })
			}
		}
	}
}

// labRow measures one kind of filter with n keys.
func labRow(b *testing.B, p labPolicy, n int) {
	filter := labBuild(b, p, n)
	b.ReportMetric(8*float64(len(filter))/float64(n), "bits/key")
	b.ReportMetric(labFalse(p, filter), "%false")
	hot, cold := []Probe{p.NewProbe(filter)}, labCopies(p, filter)
	for _, set := range []struct {
		name  string
		first uint64
	}{{"absent", labFirstAbsent}, {"present", 0}} {
		for _, at := range []struct {
			name   string
			probes []Probe
		}{{"hot", hot}, {"cold", cold}} {
			q := labQueries{probes: at.probes, hash: p.KeyHash, first: set.first, n: uint64(n)}
			b.ReportMetric(q.measure(labAsk), at.name+"-"+set.name)
			b.ReportMetric(q.measure(labAskChained), at.name+"-"+set.name+"-chained")
			work := q
			work.probes = []Probe{fixedProbe(true)}
			b.ReportMetric(q.measure(labAskApart)-work.measure(labAskApart), at.name+"-"+set.name+"-apart")
		}
	}
	b.ReportMetric(0, "ns/op") // of the whole row
}

// labBuild returns a filter of keys 0 to n-1 and reports the cost of building filters of this size.
func labBuild(b *testing.B, p labPolicy, n int) (filter []byte) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	g := p.NewGenerator()
	took := labFill(g, n, 0, func() { filter = g.AppendFilter(nil) })
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/float64(n), "build-B/key")
	room, rounds := slices.Clone(filter), max(2_000_000/n, 1)
	if n <= 1e7 { // at 1e8 the second build would cost minutes and change little
		took = 0
		for round := range rounds { // other keys each time: some need a second try
			took += labFill(g, n, uint64(n*(round+1)), func() { room = g.AppendFilter(room[:0]) })
		}
		took /= time.Duration(rounds)
	}
	b.ReportMetric(float64(took.Nanoseconds())/float64(n), "build-ns")
	return filter
}

// labFill adds n keys to g and calls finish. It returns the CPU time of both.
func labFill(g Generator, n int, first uint64, finish func()) (took time.Duration) {
	timed := func(step func()) {
		start := damage.CPUTime()
		step()
		took += damage.CPUTime() - start
	}
	keys := make([]filtertest.Key, 0, 1<<14)
	for i := 0; i < n; {
		keys = keys[:0]
		for ; i < n && len(keys) < cap(keys); i++ {
			keys = append(keys, filtertest.KeyOf(first+uint64(i)))
		}
		timed(func() {
			for i := range keys {
				g.Add(keys[i][:])
			}
		})
	}
	timed(finish)
	return took
}

// labFalse returns the percentage of four million absent keys for which the filter answers "perhaps".
func labFalse(p labPolicy, filter []byte) float64 {
	const asked = 1 << 22
	probe, yes := p.NewProbe(filter), 0
	for i := range uint64(asked) {
		key := filtertest.KeyOf(labFirstAbsent + i)
		if probe.HashMayMatch(p.KeyHash(key[:])) {
			yes++
		}
	}
	return 100 * float64(yes) / asked
}

// labMemory is the same for all kinds: that part of it has no large pages must not favour one of them.
var labMemory = sync.OnceValue(func() []byte {
	memory := make([]byte, labColdBytes)
	for i := 0; i < len(memory); i += 512 {
		memory[i] = 1 // otherwise all of it would be one page
	}
	hugepages.Count(memory)
	time.Sleep(2 * time.Second) // pages become large in the background, one a millisecond
	return memory
})

// labCopies returns probes of copies of the filter, which together are larger than the caches. Equal
// filters cost what different ones do, because each query has another hash.
func labCopies(p labPolicy, filter []byte) (probes []Probe) {
	size := (len(filter) + 63) &^ 63 // a cache line begins a copy
	for memory := labMemory(); len(memory) >= size; memory = memory[size:] {
		copied := memory[:copy(memory, filter):len(filter)]
		probes = append(probes, p.NewProbe(copied))
	}
	return probes
}

type labQuery struct {
	probe int
	hash  uint64
}

// labQueries draws queries of n keys, beginning with number first.
type labQueries struct {
	probes   []Probe
	hash     func(key []byte) uint64
	first, n uint64
}

// measure returns the time of a query in ns.
func (q labQueries) measure(ask func([]Probe, []labQuery) int) float64 {
	rng := rand.New(rand.NewPCG(7, 8))
	queries := make([]labQuery, filtertest.AskedAtOnce)
	times := make([]float64, labSlices)
	for i := range times {
		for j := range queries {
			key := filtertest.KeyOf(q.first + rng.Uint64N(q.n))
			queries[j] = labQuery{probe: rng.IntN(len(q.probes)), hash: q.hash(key[:])}
		}
		start := time.Now()
		labYes += ask(q.probes, queries)
		times[i] = float64(time.Since(start).Nanoseconds()) / float64(len(queries))
	}
	slices.Sort(times)
	return times[len(times)/10]
}

var (
	labYes  int    // keeps the answers alive
	labZero uint64 // 0, which the compiler does not know
)

func labAsk(probes []Probe, queries []labQuery) (yes int) {
	for i := range queries {
		if probes[queries[i].probe].HashMayMatch(queries[i].hash) {
			yes++
		}
	}
	return yes
}

// labAskChained makes the filter and the hash of a query depend on the answer before it.
func labAskChained(probes []Probe, queries []labQuery) (yes int) {
	last, zero := uint64(0), labZero
	for i := range queries {
		after := last & zero
		last = 0
		if probes[uint64(queries[i].probe)+after].HashMayMatch(queries[i].hash + after) {
			last = 1
		}
		yes += int(last)
	}
	return yes
}

// labAskApart does work after each query that no processor looks beyond: some 500 instructions.
func labAskApart(probes []Probe, queries []labQuery) (yes int) {
	work := labZero + 1
	for i := range queries {
		if probes[queries[i].probe].HashMayMatch(queries[i].hash) {
			yes++
		}
		for range 80 {
			work ^= work << 13
			work ^= work >> 7
			work ^= work << 17
		}
	}
	return yes + int(work&1)
}
