package main

import (
	"encoding/binary"
	"math/bits"
	"strconv"
)

const keySize = 16

// keySpace generates keys from their numbers. Stored key n is number 2n of its shape, and absent key
// n is number 2n+1, so absent counters are between stored ones.
type keySpace struct{ random bool }

func (k keySpace) stored(dst []byte, n uint64) []byte { return k.key(dst, 2*n) }
func (k keySpace) absent(dst []byte, n uint64) []byte { return k.key(dst, 2*n+1) }

// key writes to dst[:0].
func (k keySpace) key(dst []byte, n uint64) []byte {
	dst = dst[:0]
	if k.random {
		// Mixing is a bijection, so the first halves differ.
		dst = binary.BigEndian.AppendUint64(dst, mix(n))
		return binary.BigEndian.AppendUint64(dst, mix(^n))
	}
	var digits [20]byte
	number := strconv.AppendUint(digits[:0], n, 10)
	for range keySize - len(number) {
		dst = append(dst, '0')
	}
	return append(dst, number...)
}

// mix is the output function of SplitMix64 (Steele, Lea, Flood: Fast Splittable
// Pseudorandom Number Generators, 2014), a permutation of 64-bit numbers.
func mix(n uint64) uint64 {
	n += 0x9e3779b97f4a7c15
	n = (n ^ n>>30) * 0xbf58476d1ce4e5b9
	n = (n ^ n>>27) * 0x94d049bb133111eb
	return n ^ n>>31
}

// permutation is a random order of the numbers below n, computed without storing them: a Feistel
// network over the next even power of two, repeated until the result is below n.
type permutation struct {
	n, seed uint64
	half    uint
}

func newPermutation(n, seed uint64) permutation {
	return permutation{n: n, seed: seed, half: uint(bits.Len64(n-1)+1) / 2}
}

// at returns the number at position i, which is below n.
func (p permutation) at(i uint64) uint64 {
	mask := uint64(1)<<p.half - 1
	for {
		left, right := i>>p.half, i&mask
		for round := range uint64(4) {
			left, right = right, left^mix(right+p.seed+round<<48)&mask
		}
		if i = left<<p.half | right; i < p.n {
			return i
		}
	}
}
