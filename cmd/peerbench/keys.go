package main

import (
	"encoding/binary"
	"math/bits"
	"strconv"
)

const keySize = 16

// keySpace makes keys of their numbers. Number n, stored, is key 2n of its
// shape and number n, absent, key 2n+1: counters stand between stored ones.
type keySpace struct{ random bool }

func (k keySpace) stored(dst []byte, n uint64) []byte { return k.key(dst, 2*n) }
func (k keySpace) absent(dst []byte, n uint64) []byte { return k.key(dst, 2*n+1) }

// key writes to dst[:0].
func (k keySpace) key(dst []byte, n uint64) []byte {
	dst = dst[:0]
	if k.random {
		// Mixing is one to one, so no two of the first halves are the same.
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

// permutation puts the numbers below n in a random order without holding them:
// a Feistel network over the next even power of two, walked until it stays below n.
type permutation struct {
	n, seed uint64
	half    uint
}

func newPermutation(n, seed uint64) permutation {
	return permutation{n: n, seed: seed, half: uint(bits.Len64(n-1)+1) / 2}
}

// at returns the number at place i, i below n.
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
