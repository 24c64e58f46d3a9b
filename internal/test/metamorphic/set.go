package metamorphic

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"io/fs"
	"math/rand/v2"
	"strings"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/filter/rangefilter"
)

// Set returns option set number i of a seed, without a file system or comparer, and its description. Set 0 is the
// defaults, except for a small memtable, which is cleared quickly; the others are drawn.
func Set(seed uint64, i int) (*db.Options, string) {
	if i == 0 {
		return &db.Options{Memtables: db.MemtableOptions{Size: 256 << 10}}, "the defaults, with a smaller memtable"
	}
	rnd := rand.New(rand.NewPCG(seed, uint64(i)))
	o := &db.Options{
		Memtables: db.MemtableOptions{Size: int(between(rnd, 4<<10, 48<<10)), MaxWaiting: 1 + rnd.IntN(4)},
		Tables: db.TableOptions{
			BlockSize:       int(between(rnd, 64, 64<<10)),
			RestartInterval: int(between(rnd, 1, 128)),
			Size:            between(rnd, 4<<10, 2<<20),
			Compression:     []db.Compression{db.SnappyCompression, db.NoCompression, db.ZstdCompression}[rnd.IntN(3)],
		},
		Compaction: db.CompactionOptions{
			MaxLevelBase:  between(rnd, 4<<10, 4<<20),
			MaxConcurrent: 1 + rnd.IntN(4),
			L0Trigger:     1 + rnd.IntN(8),
		},
		Limits: db.LimitOptions{ManifestSize: between(rnd, 4<<10, 1<<20)},
		Cache: db.CacheOptions{
			Size:         []int64{-1, 1, 4 << 10, 256 << 10, 64 << 20}[rnd.IntN(5)],
			ChargeTables: rnd.IntN(3) == 0,
			MaxOpenFiles: []int{10, 11, 40, 1000}[rnd.IntN(4)],
		},
		TrackOpen: rnd.IntN(4) == 0,
		LogDir:    []string{"", "logs", dir}[rnd.IntN(3)],
		FileMode:  []fs.FileMode{0, 0o640, 0o666}[rnd.IntN(3)],
	}
	if rnd.IntN(3) == 0 {
		o.Resources = sharedBy(rnd)
	}
	if o.Resources == nil {
		o.Cache.Memory = []int64{0, 0, 64 << 10, 1 << 20}[rnd.IntN(4)]
	}
	o.Cache.OpenAhead = rnd.IntN(3) == 0
	o.Limits.ManifestRead = max(1<<20, 2*o.Limits.ManifestSize)
	if rnd.IntN(8) == 0 { // seldom: a history fills no such memtable, and clearing it takes the time of a thousand operations
		o.Memtables.Size = int(between(rnd, 48<<10, 4<<20))
	}
	o.Compaction.L0Slowdown = o.Compaction.L0Trigger + rnd.IntN(12)
	o.Compaction.L0Stop = o.Compaction.L0Slowdown + 1 + rnd.IntN(12)
	o.Filters.Policy = policies[rnd.IntN(len(policies))]
	if writesLevelDBs(o.Filters.Policy) {
		o.Filters.ForGoleveldb = rnd.IntN(3) == 0
	}
	if _, ok := filter.WithBitsPerKey(o.Filters.Policy, 1); ok {
		switch rnd.IntN(4) {
		case 0:
			o.Filters.Budget = between(rnd, 1, 64<<10)
		case 1:
			o.Filters.MaxWastedReads = []float64{1e-6, 0.05, 0.9}[rnd.IntN(3)]
		}
	}
	o.Filters.RangePolicies = rangePolicies[rnd.IntN(len(rangePolicies))]
	o.Compaction.MaxBytesPerSecond = []int64{0, 64 << 20}[rnd.IntN(2)]
	for range rnd.IntN(4) {
		o.Tables.LevelCompression = append(o.Tables.LevelCompression, db.Compression(rnd.IntN(int(db.ZstdCompression)+1)))
	}
	o.Tables.SeparateValues = []int{0, 0, 1, 20, 100, 1000}[rnd.IntN(6)]
	if rnd.IntN(4) == 0 { // it changes no answer, but snapshots pin what they read
		o.Compaction.Filter = func(_, value []byte) ([]byte, bool) { return bytes.Clone(value), true }
	}
	return o, describe(o)
}

// sharedBy returns resources for a few stores.
func sharedBy(rnd *rand.Rand) *db.Resources {
	r, err := db.NewResources(db.ResourcesOptions{
		MaxStores: 4, CacheSize: between(rnd, 4<<10, 1<<20), MaxOpenFiles: 40 + rnd.IntN(100),
		MemtableSize: between(rnd, 256<<10, 8<<20), MaxConcurrent: 1 + rnd.IntN(3),
	})
	if err != nil {
		panic(err)
	}
	return r
}

// between draws evenly by magnitude, both ends included.
func between(rnd *rand.Rand, low, high int64) int64 {
	doublings := 0
	for n := low; n < high; n *= 2 {
		doublings++
	}
	floor := low << rnd.IntN(doublings)
	return min(high, floor+rnd.Int64N(floor+1))
}

// policies are the filters of the lottery. The default stands there twice.
var policies = []filter.Policy{
	filter.NewDualBloomPolicy(10), filter.NewDualBloomPolicy(10), filter.NewDualBloomPolicy(1),
	filter.NewBloomPolicy(10), filter.NewBloomPolicy(1), filter.NewBloomPolicy(25),
	filter.NewCacheLineBloomPolicy(10), filter.NewCacheLineBloomPolicy(1), filter.NewCacheLineBloomPolicy(25),
	filter.Several(checksums{}, filter.NewBloomPolicy(10)), filter.Several(filter.LegacyBloom, filter.NewCacheLineBloomPolicy(3), admitsAll{}),
	filter.LegacyBloom, filter.None, checksums{}, admitsAll{},
	filter.FusePolicy{}, filter.Several(filter.FusePolicy{}, filter.NewBloomPolicy(10)),
	filter.NewFusePolicy(7), filter.Several(filter.NewFusePolicy(3), filter.NewBloomPolicy(10)),
}

// rangePolicies are the filters of ranges of the lottery, for keys as histories have them.
var rangePolicies = [][]rangefilter.Policy{
	nil,
	{rangefilter.NewPrefix(rangefilter.FixedPrefix(2), 10)},
	{rangefilter.NewPrefix(rangefilter.FixedPrefix(57), 1), rangefilter.NewPrefix(rangefilter.FixedPrefix(3), 20)},
	{rangefilter.NewGrafite(rangefilter.FixedPrefix(1), rangefilter.Decimal(4), 8), rangefilter.NewGrafite(rangefilter.FixedPrefix(56), rangefilter.BigEndian(2), 12)},
	{rangefilter.NewGrafite(rangefilter.FixedPrefix(0), rangefilter.BigEndian(4), 20)},
	{rangefilter.NewPrefix(rangefilter.SeparatedPrefix(0xff, 1), 10), rangefilter.NewPrefix(rangefilter.SeparatedPrefix('/', 8), 4)},
}

// writesLevelDBs reports whether p makes filters that goleveldb can read too.
func writesLevelDBs(p filter.Policy) bool {
	for _, kind := range filter.Kinds(p) {
		if b, ok := kind.(filter.BloomPolicy); ok && b.Name() == filter.NewBloomPolicy(10).Name() {
			return true
		}
	}
	return false
}

// checksums is a policy with no more than the three methods that a policy needs. Its filters are sets of one-byte
// checksums, so that they often say "perhaps" wrongly.
type checksums struct{}

func (checksums) Name() string { return "sievedb.test.checksums" }

func (checksums) CreateFilter(dst []byte, keys [][]byte) []byte {
	var set [32]byte
	for _, k := range keys {
		sum := crc32.ChecksumIEEE(k)
		set[sum%256/8] |= 1 << (sum % 8)
	}
	return append(dst, set[:]...)
}

func (checksums) KeyMayMatch(key, set []byte) bool {
	sum := crc32.ChecksumIEEE(key)
	return len(set) != 32 || set[sum%256/8]&(1<<(sum%8)) != 0
}

// admitsAll says "perhaps" to every key.
type admitsAll struct{}

func (admitsAll) Name() string                               { return "sievedb.test.admits-all" }
func (admitsAll) CreateFilter(dst []byte, _ [][]byte) []byte { return append(dst, '?') }
func (admitsAll) KeyMayMatch(_, _ []byte) bool               { return true }

func describe(o *db.Options) string {
	return fmt.Sprintf("memtable %d×%d, block %d, restarts %d, table %d, level base %d, manifest %d of %d, cache %d (with tables: %v) of %d, files %d (ahead: %v), "+
		"compression %d %v, values apart from %d, compactions %d of %d bytes a second, level 0 %d/%d/%d, filter %s in %d bytes or %g wasted reads, for goleveldb %v, of ranges %s, compaction filter %v, logs in %q, tracking %v, mode %#o, resources %v",
		o.Memtables.Size, o.Memtables.MaxWaiting, o.Tables.BlockSize, o.Tables.RestartInterval, o.Tables.Size, o.Compaction.MaxLevelBase, o.Limits.ManifestSize, o.Limits.ManifestRead,
		o.Cache.Size, o.Cache.ChargeTables, o.Cache.Memory, o.Cache.MaxOpenFiles, o.Cache.OpenAhead, o.Tables.Compression, o.Tables.LevelCompression, o.Tables.SeparateValues, o.Compaction.MaxConcurrent, o.Compaction.MaxBytesPerSecond,
		o.Compaction.L0Trigger, o.Compaction.L0Slowdown, o.Compaction.L0Stop, describeFilter(o.Filters.Policy), o.Filters.Budget, o.Filters.MaxWastedReads, o.Filters.ForGoleveldb, describeRanges(o.Filters.RangePolicies), o.Compaction.Filter != nil, o.LogDir, o.TrackOpen, uint32(o.FileMode), describeResources(o.Resources))
}

// describeResources returns the limits of r.
func describeResources(r *db.Resources) string {
	m := r.Metrics()
	return fmt.Sprintf("%d bytes for %d stores, cache %d, files %d, compactions %d",
		m.Memtables.Limit, m.MaxStores, m.Cache.Limit, m.OpenFiles.Limit, m.Compactions.Limit)
}

// describeFilter names the filters of a table, and their bits where that varies.
func describeFilter(p filter.Policy) string {
	if p == filter.None {
		return p.Name()
	}
	var kinds []string
	for _, kind := range filter.Kinds(p) {
		name := kind.Name()
		switch p := kind.(type) {
		case filter.BloomPolicy:
			name = fmt.Sprintf("%s of %d bits", name, p.BitsPerKey())
		case filter.FusePolicy:
			name = fmt.Sprintf("%s of %d bits", name, p.SlotBits())
		}
		kinds = append(kinds, name)
	}
	return strings.Join(kinds, " and ")
}

func describeRanges(policies []rangefilter.Policy) string {
	if len(policies) == 0 {
		return "none"
	}
	var names []string
	for _, p := range policies {
		names = append(names, p.Name())
	}
	return strings.Join(names, " and ")
}
