package fuse

import (
	"math/bits"
	"slices"
)

// Tries is the number of multipliers that are tried. Each try makes the array larger by a 32nd of its first size. One
// in ten arrays needs a second try; distinct random hashes never need the last.
const Tries = 32

// Solver finds an order of the slots in which they can be set such that the xor of each key's
// slots is its value. A slot that only one key uses can be set last, because no other key depends
// on it. So the solver removes that key, and continues with the slots that only one of the
// remaining keys uses. When no key is left, it sets the slots in the opposite order.
type Solver struct {
	mixed []uint64 // the keys, mixed
	keys  []uint8  // how many of the keys use each slot
	sum   []uint64 // their xor, which is the key itself if there is only one
	// order begins with the slots of removed keys, first to last. Its end is a stack of
	// slots to look at. The two do not meet: a slot is on the stack at most once.
	order []uint32
	taken []uint32 // the beginning of order, after peel
}

// Try finds a shape for which the keys with these hashes have a solution, and returns it with the
// number of its multiplier, and the distinct hashes, which it may sort. shapeFor is ShapeFor or
// PackedShape. ok is false if there is none after the given number of tries.
//
// The caller sets the slots, which are 0 at first, in the order of Order.
func (s *Solver) Try(
	hashes []uint64, tries int, shapeFor func(keys int, try uint8) Shape,
) (shape Shape, number uint8, distinct []uint64, ok bool) {
	for try := 0; try < tries; try++ {
		shape = shapeFor(len(hashes), uint8(try))
		if s.solve(hashes, shape) {
			return shape, uint8(try), hashes, true
		}
		if try == 0 {
			// A duplicate hash fails with every multiplier.
			all := len(hashes)
			if hashes = sortedDistinct(hashes); len(hashes) < all {
				try = -1 // retry as if there had been no duplicates
			}
		}
	}
	return shape, 0, hashes, false
}

// Order returns the slots to set, the last one first, and for each slot the mixed key whose value it completes.
func (s *Solver) Order() (slots []uint32, keyOf []uint64) { return s.taken, s.sum }

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

// solve finds the order, and reports whether there is a solution.
func (s *Solver) solve(hashes []uint64, shape Shape) bool {
	s.mix(hashes, shape)
	if !s.count(int(shape.Slots()), shape) {
		return false
	}
	s.taken = s.peel(shape)
	return len(s.taken) == len(hashes)
}

// mix mixes the hashes. If there are more than fit in the cache, it roughly sorts them by
// slot. (Ten million keys: 70 ns per key, against 140.)
func (s *Solver) mix(hashes []uint64, shape Shape) {
	const cached, maxBuckets = 1 << 16, 1 << 10
	s.mixed = resized(s.mixed, len(hashes))
	if len(hashes) <= cached {
		for i, h := range hashes {
			s.mixed[i] = shape.Mix(h)
		}
		return
	}
	var ends [maxBuckets + 1]uint32
	shift := 64 - min(bits.Len64(shape.Span>>shape.Lg)-1, bits.Len(maxBuckets)-1)
	for _, h := range hashes {
		ends[shape.Mix(h)>>shift+1]++
	}
	for i := 1; i < len(ends); i++ {
		ends[i] += ends[i-1]
	}
	for _, h := range hashes {
		m := shape.Mix(h)
		at := &ends[m>>shift]
		s.mixed[*at] = m
		*at++
	}
}

// count enters each key at its slots. It returns false if a slot has more than 255 keys,
// which happens only to keys chosen by an adversary.
func (s *Solver) count(slots int, shape Shape) bool {
	s.keys, s.sum = resized(s.keys, slots), resized(s.sum, slots)
	clear(s.keys)
	clear(s.sum)
	keys, sum := s.keys, s.sum
	for _, m := range s.mixed {
		a, b, c, d := shape.Places(m)
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

// peel removes keys, and returns the slots that each removed key alone used at that moment; sum has the key of each.
func (s *Solver) peel(shape Shape) (taken []uint32) {
	s.order = resized(s.order, len(s.keys))
	keys, sum, order := s.keys, s.sum, s.order
	n, top := 0, len(order)
	for i := range keys {
		if keys[i] != 1 {
			continue
		}
		top--
		order[top] = uint32(i)
		// A slot after i is visited later. One before it is visited immediately, while it is in the cache.
		for top < len(order) {
			at := order[top]
			top++
			if keys[at] != 1 {
				continue
			}
			order[n] = at
			n++
			m := sum[at]
			a, b, c, d := shape.Places(m)
			for _, slot := range [Arity]uint64{a, b, c, d} {
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

// resized returns a slice of n elements, with arbitrary values, in the memory of s if it is large enough.
func resized[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}
