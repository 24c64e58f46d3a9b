package rangefilter

import (
	"math"

	"github.com/sievedb/sievedb/filter"
)

// SameBits reports whether the filter of probe has as many bits as p gives new filters,
// which no name says. probe was made by p or by a policy of the same name. A filter of
// prefixes does not record how many prefixes it was made of; SameBits estimates them from
// its ones, so it may miss a difference of an eighth or less. For policies of other packages
// it returns true.
func SameBits(p Policy, probe Probe) bool {
	switch p := p.(type) {
	case Prefix:
		if q, ok := probe.(*prefixProbe); ok {
			return p.mayHaveMade(&q.lines)
		}
	case Grafite:
		if q, ok := probe.(*grafiteProbe); ok {
			return q.positions.low == uint64(p.lowBits())
		}
	}
	return true
}

// mayHaveMade reports whether the policy gives so many lines and hashes to about as many prefixes as
// the lines seem to hold.
func (p Prefix) mayHaveMade(lines *filter.CacheLineProbe) bool {
	const fewer, least = 8, 40 // an eighth, and what a line or two may hold more or less
	s, policy := lines.Shape(), p.lines()
	n := s.EstimatedKeys()
	if n == math.MaxUint64 { // any number
		return s.Hashes == filter.CacheLineHashes(p.bitsPerPrefix)
	}
	slack := n/fewer + least
	few, many := n-min(n, slack), n+slack
	k := filter.CacheLineHashes(min(p.bitsPerPrefix, policy.MaxBitsFor(few)))
	const lineBytes = 64 // a filter is a little more than its lines
	size := s.Bits / 8 / lineBytes
	return s.Hashes == k && size >= policy.FilterBytes(few)/lineBytes && size <= policy.FilterBytes(many)/lineBytes
}
