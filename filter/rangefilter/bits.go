package rangefilter

import (
	"math"

	"github.com/sievedb/sievedb/filter"
)

// SameBits reports whether the filter of probe has as many bits as p uses for new filters, which is not part of the
// name. probe must come from p or from a policy of the same name. A prefix filter does not record the number of its
// prefixes; SameBits estimates it from the filter's ones, and so may miss a difference of an eighth or less. For
// policies of other packages it returns true.
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

// mayHaveMade reports whether the policy uses that many lines and hashes for about as many
// prefixes as the lines seem to contain.
func (p Prefix) mayHaveMade(lines *filter.CacheLineProbe) bool {
	const fewer, least = 8, 40 // the slack: an eighth, and about as many as a line or two contain
	s, policy := lines.Shape(), p.lines()
	n := s.EstimatedKeys()
	if n == math.MaxUint64 { // the filter is full: any number is possible
		return s.Hashes == filter.CacheLineHashes(p.bitsPerPrefix)
	}
	slack := n/fewer + least
	few, many := n-min(n, slack), n+slack
	k := filter.CacheLineHashes(min(p.bitsPerPrefix, policy.MaxBitsFor(few)))
	const lineBytes = 64 // a filter is slightly larger than its lines
	size := s.Bits / 8 / lineBytes
	return s.Hashes == k && size >= policy.FilterBytes(few)/lineBytes && size <= policy.FilterBytes(many)/lineBytes
}
