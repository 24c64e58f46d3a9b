package filter

import (
	"math/bits"
	"slices"
)

// fuseTries is the number of multipliers that are tried. Each try makes the filter larger
// by a 32nd of its first size. One in ten filters needs a second try; distinct random
// hashes never need the last.
const fuseTries = 32

// fuseGenerator keeps the hashes of the keys, and the memory for solving.
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

// AppendChecked implements CheckedGenerator. It reads the filter from its bytes, with the
// code that lookups use.
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

// fuseSolver finds values for the slots such that the xor of each key's slots is its
// fingerprint. A slot that only one key uses can be set last, because no other key depends
// on it. So the solver removes that key, and continues with the slots that only one of the
// remaining keys uses. When no key is left, it sets the slots in the opposite order.
type fuseSolver struct {
	mixed []uint64 // the keys, mixed
	keys  []uint8  // how many of the keys use each slot
	sum   []uint64 // their xor, which is the key itself if there is only one
	// order begins with the slots of removed keys, first to last. Its end is a stack of
	// slots to look at. The two do not meet: a slot is on the stack at most once.
	order []uint32
}

// appendFilter appends to dst the filter of the keys with these hashes, and returns the
// distinct hashes. It may sort hashes. After the given number of tries it gives up and
// appends the filter that rules nothing out.
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
			// A duplicate hash fails with every multiplier.
			all := len(hashes)
			if hashes = sortedDistinct(hashes); len(hashes) < all {
				try = -1 // retry as if there had been no duplicates
			}
		}
	}
	return append(dst[:start], 0, 0, fuseVersion), hashes
}

// sortedDistinct sorts the hashes and removes duplicates. Unlike slices.Compact it leaves
// the elements after the result alone.
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

// solve sets the slots for the hashes, and reports whether there is a solution.
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
		slots[at] = fingerprint(mixed) ^ slots[a] ^ slots[b] ^ slots[c] ^ slots[d] // slots[at] is 0
	}
	return true
}

// mix mixes the hashes. If there are more than fit in the cache, it roughly sorts them by
// slot. (Ten million keys: 70 ns per key, against 140.)
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

// count enters each key at its slots. It returns false if a slot has more than 255 keys,
// which happens only to keys chosen by an adversary.
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

// peel removes keys, and returns the slots that each removed key alone used at that
// moment; sum has the key of each.
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
		// A slot after i is visited later. One before it is visited immediately, while it
		// is in the cache.
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

// resized returns a slice of n elements, with arbitrary values, in the memory of s if it
// is large enough.
func resized[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}
