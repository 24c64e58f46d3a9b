package rangefilter

import (
	"bytes"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/util"
)

// The bytes of a prefix filter
//
// A filter of Prefix, "sievedb.PrefixBloom." and the Extractor's name, is a cache-line filter of the distinct prefixes
// of the keys, followed by one byte: 1 if every key had a prefix, 0 if some key had none. For other bytes the answer is
// "perhaps". The filter is queried for ranges within one prefix. If every key had a prefix and the extractor uses N
// bytes, zeros at the end of an upper bound of N bytes or fewer are removed first, since no key is in between.

// Prefix makes filters of the distinct prefixes of keys, for ranges within one prefix. Their name is
// "sievedb.PrefixBloom." and the extractor's name. The filter of a million keys with a thousand prefixes has 1.25 kB at
// 10 bits per prefix. The comment at the top of prefix.go describes its bytes.
//
// Ranges for which Extractor.Common finds no common prefix always match. A Prefix is a comparable value.
type Prefix struct {
	extractor     Extractor
	bitsPerPrefix int
}

var _ Policy = Prefix{}

// These reach the disk and never change.
const (
	prefixBloomName = "sievedb.PrefixBloom."
	somePrefixless  = 0 // the last byte of a filter: some keys had no prefix
	nonePrefixless  = 1
)

// NewPrefix returns the policy for the prefixes that e extracts, with bitsPerPrefix bits for
// each, at least 1 and at most filter.MaxBitsPerKey. The false-positive rate is 1 % at 10
// bits and 0.02 % at 20 (see filter.CacheLineFalsePositiveRate).
func NewPrefix(e Extractor, bitsPerPrefix int) Prefix {
	return Prefix{e, filter.NewCacheLineBloomPolicy(bitsPerPrefix).BitsPerKey()}
}

// Name returns "sievedb.PrefixBloom.fixed:8", for example.
func (p Prefix) Name() string { return prefixBloomName + p.extractor.Name() }

// Extractor returns the policy's extractor.
func (p Prefix) Extractor() Extractor { return p.extractor }

// BitsPerPrefix returns the number of bits that new filters use for each prefix.
func (p Prefix) BitsPerPrefix() int { return p.bitsPerPrefix }

// PredictedRate returns the expected false-positive rate, 0 to 1, of a filter of the given
// number of distinct prefixes for ranges within an absent prefix.
func (p Prefix) PredictedRate(prefixes uint64) float64 {
	return p.lines().PredictedRate(prefixes)
}

// lines returns the policy of the cache-line filters of prefixes.
func (p Prefix) lines() filter.BloomPolicy { return filter.NewCacheLineBloomPolicy(p.bitsPerPrefix) }

// NewGenerator implements Policy. The generator keeps eight bytes per prefix.
func (p Prefix) NewGenerator() Generator {
	return &prefixGenerator{extractor: p.extractor, lines: p.lines().NewGenerator().(lineGenerator)}
}

// NewProbe implements Policy.
func (p Prefix) NewProbe(data []byte) (Probe, bool) {
	n := len(data) - 1
	if n < 0 || data[n] > nonePrefixless {
		return nil, false
	}
	lines, ok := filter.AsCacheLineProbe(p.lines().NewProbe(data[:n]))
	if !ok {
		return nil, false
	}
	return &prefixProbe{p.extractor, data[n] == nonePrefixless, lines}, true
}

type prefixProbe struct {
	extractor Extractor
	all       bool // every key had a prefix
	lines     filter.CacheLineProbe
}

// MayMatch implements Probe.
func (p *prefixProbe) MayMatch(lower, upper []byte) bool {
	if p.all {
		upper = p.extractor.withoutZeros(upper)
	}
	prefix, ok := p.extractor.Common(lower, upper)
	return !ok || p.lines.HashMayMatch(util.XXH3(prefix))
}

// prefixGenerator collects the prefixes of keys.
type prefixGenerator struct {
	extractor  Extractor
	lines      lineGenerator
	last       []byte // the prefix added last
	some       bool   // a prefix was added
	prefixless bool   // a key without a prefix was added
}

// lineGenerator is the generator of cache-line filters.
type lineGenerator interface {
	filter.CheckedGenerator
	Reset()
}

func (g *prefixGenerator) Add(key []byte) {
	prefix, ok := g.extractor.Prefix(key)
	switch {
	case !ok:
		g.prefixless = true
	case !g.some || !bytes.Equal(prefix, g.last):
		g.lines.Add(prefix)
		g.last, g.some = append(g.last[:0], prefix...), true
	}
}

func (g *prefixGenerator) AppendChecked(dst []byte) (extended []byte, denied int) {
	last := byte(nonePrefixless)
	if g.prefixless {
		last = somePrefixless
	}
	dst, denied = g.lines.AppendChecked(dst)
	g.Reset()
	return append(dst, last), denied
}

// keptPrefix returns the memory of the last prefix for reuse by the next filter, or nil if
// that prefix was unusually long.
func keptPrefix(last []byte) []byte {
	if cap(last) > 64<<10 {
		return nil
	}
	return last
}

func (g *prefixGenerator) Reset() {
	g.lines.Reset()
	g.some, g.prefixless = false, false
	g.last = keptPrefix(g.last)
}
