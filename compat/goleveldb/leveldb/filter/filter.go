// Package filter has the filters that keep lookups from reading tables without the key.
package filter

import sieve "github.com/sievedb/sievedb/filter"

// Buffer collects a filter's bytes.
type Buffer interface {
	// Alloc appends n bytes and returns them.
	Alloc(n int) []byte
	Write(p []byte) (n int, err error)
	WriteByte(c byte) error
}

// Filter makes filters and reads them. Its methods are safe for concurrent use.
type Filter interface {
	// Name identifies the encoding. Tables record it.
	Name() string
	// NewGenerator returns a generator, which is used by one goroutine at a time.
	NewGenerator() FilterGenerator
	// Contains reports whether filter may have been made from key. It never returns false for a
	// key that it was made from.
	Contains(filter, key []byte) bool
}

// FilterGenerator makes filters, one after another.
type FilterGenerator interface {
	// Add adds a key. The slice is valid during the call only.
	Add(key []byte)
	// Generate appends the filter of the keys added since the last call.
	Generate(b Buffer)
}

// NewBloomFilter returns the bloom filter with this number of bits for each key. Its filters have
// the format of LevelDB's, and SieveDB reads and writes them natively.
func NewBloomFilter(bitsPerKey int) Filter { return bloomFilter(bitsPerKey) }

type bloomFilter int

func (bloomFilter) Name() string { return sieve.LegacyBloom.Name() }

// Contains returns false for a filter without bits, as goleveldb does.
func (bloomFilter) Contains(filter, key []byte) bool {
	return len(filter) > 1 && sieve.NewBloomPolicy(0).KeyMayMatch(key, filter)
}

func (f bloomFilter) NewGenerator() FilterGenerator {
	return &bloomGenerator{policy: sieve.NewBloomPolicy(int(f))}
}

// BitsPerKey returns the argument of NewBloomFilter.
func (f bloomFilter) BitsPerKey() int { return int(f) }

type bloomGenerator struct {
	policy sieve.BloomPolicy
	keys   [][]byte
}

func (g *bloomGenerator) Add(key []byte) { g.keys = append(g.keys, append([]byte(nil), key...)) }

func (g *bloomGenerator) Generate(b Buffer) {
	filter := g.policy.CreateFilter(nil, g.keys)
	copy(b.Alloc(len(filter)), filter)
	g.keys = g.keys[:0]
}
