package filter

import (
	"math/bits"
	"slices"
)

// fuseTries is how many multipliers are tried, each with a filter a 32nd larger than
// the first was. One in ten filters needs a second; that one of distinct random
// hashes needs the last cannot happen.
const fuseTries = 32

// fuseGenerator keeps the hashes of the keys, and memory for solving.
type fuseGenerator struct {
	hashes []uint64
	solver fuseSolver
}

var _ CheckedGenerator = (*fuseGenerator)(nil)

func (g *fuseGenerator) Add(key []byte) { g.hashes = appendDoubling(g.hashes, cacheLineHash(key)) }
func (g *fuseGenerator) Len() int       { return len(g.hashes) }

func (g *fuseGenerator) AppendFilter(dst []byte) []byte {
	dst, _ = g.solver.appendFilter(dst, g.hashes, fuseTries)
	g.hashes = g.hashes[:0]
	return dst
}

// AppendChecked implements CheckedGenerator. It reads the filter with the code
// that lookups use, from the bytes alone.
func (g *fuseGenerator) AppendChecked(dst []byte) (extended []byte, denied int) {
	start := len(dst)
	dst, distinct := g.solver.appendFilter(dst, g.hashes, fuseTries)
	g.hashes = g.hashes[:0]
	return dst, countDeniedByFuse(dst[start:], distinct)
}

// countDeniedByFuse returns how many of the hashes a binary fuse filter denies.
func countDeniedByFuse(filter []byte, hashes []uint64) (denied int) {
	probe, ok := parseFuse(filter)
	if !ok {
		return 0
	}
	for _, h := range hashes {
		if !probe.HashMayMatch(h) {
			denied++
		}
	}
	return denied
}

// fuseSolver finds bytes for the slots such that those of each key add up to its
// fingerprint. A slot that a single key has can be set last, and so decides nothing
// else: take that key away, and go on with the slots that only one of the others has.
// When no key is left, set the slots in the opposite order.
type fuseSolver struct {
	mixed []uint64 // the keys, mixed
	keys  []uint8  // how many of the keys each slot has; and
	sum   []uint64 // the xor of them, the key itself where there is one
	// order begins with the slots that were taken, first to last. Its end is a stack
	// of slots to look at. They do not meet: a slot comes to the stack once at most.
	order []uint32
}

// appendFilter appends to dst the filter of keys with these hashes, which it may
// sort, and returns the distinct ones of them. After that many tries it gives up,
// and appends the filter that rules nothing out.
func (s *fuseSolver) appendFilter(dst []byte, hashes []uint64, tries int) (extended []byte, distinct []uint64) {
	start := len(dst)
	for try := 0; try < tries && len(hashes) <= maxFuseKeys; try++ {
		shape := shapeOfFuse(len(hashes), uint8(try))
		n := int(shape.slots())
		dst = slices.Grow(dst[:start], n+fuseTailBytes)[:start+n]
		if s.solve(dst[start:], hashes, shape) {
			return append(dst, uint8(try), uint8(shape.lg), fuseVersion), hashes
		}
		if try == 0 {
			// A hash that is there twice fails with every multiplier.
			all := len(hashes)
			if hashes = sortedDistinct(hashes); len(hashes) < all {
				try = -1 // as if it had been there once
			}
		}
	}
	return append(dst[:start], 0, 0, fuseVersion), hashes
}

// sortedDistinct is slices.Compact of the sorted hashes, which leaves what is behind
// them alone.
func sortedDistinct(hashes []uint64) []uint64 {
	slices.Sort(hashes)
	n := 0
	for i, h := range hashes {
		if i == 0 || h != hashes[n-1] {
			hashes[n] = h
			n++
		}
	}
	return hashes[:n]
}

// solve sets the slots for the hashes, and reports whether it can be done.
func (s *fuseSolver) solve(slots []byte, hashes []uint64, shape fuseShape) bool {
	s.mix(hashes, shape)
	if !s.count(len(slots), shape) {
		return false
	}
	taken := s.peel(shape)
	if len(taken) != len(hashes) {
		return false
	}
	clear(slots)
	for _, at := range slices.Backward(taken) {
		mixed := s.sum[at]
		a, b, c, d := shape.places(mixed)
		slots[at] = fingerprint(mixed) ^ slots[a] ^ slots[b] ^ slots[c] ^ slots[d] // its own is 0
	}
	return true
}

// mix mixes the hashes, and puts them roughly into the order of their slots where
// those are more than the cache holds. (Ten million keys: 70 ns a key, against 140.)
func (s *fuseSolver) mix(hashes []uint64, shape fuseShape) {
	const cached, maxBuckets = 1 << 16, 1 << 10
	s.mixed = resized(s.mixed, len(hashes))
	if len(hashes) <= cached {
		for i, h := range hashes {
			s.mixed[i] = shape.mix(h)
		}
		return
	}
	var ends [maxBuckets + 1]uint32
	shift := 64 - min(bits.Len64(shape.span>>shape.lg)-1, bits.Len(maxBuckets)-1)
	for _, h := range hashes {
		ends[shape.mix(h)>>shift+1]++
	}
	for i := 1; i < len(ends); i++ {
		ends[i] += ends[i-1]
	}
	for _, h := range hashes {
		m := shape.mix(h)
		at := &ends[m>>shift]
		s.mixed[*at] = m
		*at++
	}
}

// count enters each key at its slots. It gives up where one has more than 255, which
// happens to keys chosen for it alone.
func (s *fuseSolver) count(slots int, shape fuseShape) bool {
	s.keys, s.sum = resized(s.keys, slots), resized(s.sum, slots)
	clear(s.keys)
	clear(s.sum)
	keys, sum := s.keys, s.sum
	for _, m := range s.mixed {
		a, b, c, d := shape.places(m)
		keys[a]++
		sum[a] ^= m
		keys[b]++
		sum[b] ^= m
		keys[c]++
		sum[c] ^= m
		keys[d]++
		sum[d] ^= m
		if keys[a] == 0 || keys[b] == 0 || keys[c] == 0 || keys[d] == 0 {
			return false
		}
	}
	return true
}

// peel takes keys away, and returns the slots that were theirs alone when they were
// taken, each of which has its key in sum.
func (s *fuseSolver) peel(shape fuseShape) (taken []uint32) {
	s.order = resized(s.order, len(s.keys))
	keys, sum, order := s.keys, s.sum, s.order
	n, top := 0, len(order)
	for i := range keys {
		if keys[i] != 1 {
			continue
		}
		top--
		order[top] = uint32(i)
		// A slot after i waits for its turn. One before it is looked at right away,
		// while it is in the cache.
		for top < len(order) {
			at := order[top]
			top++
			if keys[at] != 1 {
				continue
			}
			order[n] = at
			n++
			m := sum[at]
			a, b, c, d := shape.places(m)
			for _, slot := range [fuseArity]uint64{a, b, c, d} {
				if keys[slot]--; keys[slot] == 1 && slot < uint64(i) {
					top--
					order[top] = uint32(slot)
				}
				sum[slot] ^= m
			}
			sum[at] = m
		}
	}
	return order[:n]
}

// resized returns a slice of n elements in the memory of s if it is enough; what they
// are is left open.
func resized[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}
