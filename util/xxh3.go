package util

import (
	"encoding/binary"
	"math/bits"
)

// This file is XXH3-64 with seed 0 and the default secret, as specified by xxHash 0.2.0 (doc/xxhash_spec.md, "XXH3
// algorithm description"). The result is the same on every machine. Like any hash without a secret seed, it is no
// defence against adversaries who choose keys that collide.

// The constants of the specification.
const (
	xxPrime32n1 = 0x9E3779B1
	xxPrime32n2 = 0x85EBCA77
	xxPrime32n3 = 0xC2B2AE3D
	xxPrime64n1 = 0x9E3779B185EBCA87
	xxPrime64n2 = 0xC2B2AE3D27D4EB4F
	xxPrime64n3 = 0x165667B19E3779F9
	xxPrime64n4 = 0x85EBCA77C2B2AE63
	xxPrime64n5 = 0x27D4EB2F165667C5
	xxPrimeMx1  = 0x165667919E3779F9
	xxPrimeMx2  = 0x9FB21C651E98DF25
)

// xxSecret is the specification's default 192-byte secret as 24 little-endian words.
var xxSecret = [24]uint64{
	0xbe4ba423396cfeb8, 0x1cad21f72c81017c, 0xdb979083e96dd4de, 0x1f67b3b7a4a44072,
	0x78e5c0cc4ee679cb, 0x2172ffcc7dd05a82, 0x8e2443f7744608b8, 0x4c263a81e69035e0,
	0xcb00c391bb52283c, 0xa32e531b8b65d088, 0x4ef90da297486471, 0xd8acdea946ef1938,
	0x3f349ce33f76faa8, 0x1d4f0bc7c7bbdcf9, 0x3159b4cd4be0518a, 0x647378d9c97e9fc8,
	0xc3ebd33483acc5ea, 0xeb6313faffa081c5, 0x49daf0b751dd0d17, 0x9e68d429265516d3,
	0xfca1477d58be162b, 0xce31d07ad1b8f88f, 0x280416958f3acb45, 0x7e404bbbcafbd7af,
}

// xxSecretAt returns the word of the secret at the given byte offset, below 184.
func xxSecretAt(offset int) uint64 {
	i, shift := offset/8, uint(offset%8)*8
	return xxSecret[i]>>shift | xxSecret[i+1]<<(64-shift)
}

// XXH3 returns the 64-bit XXH3 hash of key with seed 0. It allocates nothing.
func XXH3(key []byte) uint64 {
	n := len(key)
	switch {
	case n > 240:
		return xxh3Long(key)
	case n > 128:
		return xxh3To240(key)
	case n > 16:
		return xxh3To128(key)
	case n > 8:
		first, last := binary.LittleEndian.Uint64(key), binary.LittleEndian.Uint64(key[n-8:])
		low := xxSecret[3] ^ xxSecret[4] ^ first
		high := xxSecret[5] ^ xxSecret[6] ^ last
		return xxAvalanche(uint64(n) + bits.ReverseBytes64(low) + high + xxFold(low, high))
	case n > 3:
		first, last := binary.LittleEndian.Uint32(key), binary.LittleEndian.Uint32(key[n-4:])
		v := xxSecret[1] ^ xxSecret[2] ^ (uint64(first)<<32 | uint64(last))
		v ^= bits.RotateLeft64(v, 49) ^ bits.RotateLeft64(v, 24)
		v *= xxPrimeMx2
		v ^= v>>35 + uint64(n)
		v *= xxPrimeMx2
		return v ^ v>>28
	case n > 0:
		v := uint64(key[n-1]) | uint64(n)<<8 | uint64(key[0])<<16 | uint64(key[n>>1])<<24
		return xx64Avalanche(v ^ uint64(uint32(xxSecret[0])^uint32(xxSecret[0]>>32)))
	}
	return xx64Avalanche(xxSecret[7] ^ xxSecret[8])
}

// xxh3To128 hashes 17 to 128 bytes: pairs of 16 bytes, one from the front and one from the end,
// until they meet. (A loop takes 1.5 times as long.)
func xxh3To128(key []byte) uint64 {
	n, s := len(key), &xxSecret
	acc := uint64(n) * xxPrime64n1
	acc += xxMix(key, s[0], s[1]) + xxMix(key[n-16:], s[2], s[3])
	if n > 32 {
		acc += xxMix(key[16:], s[4], s[5]) + xxMix(key[n-32:], s[6], s[7])
		if n > 64 {
			acc += xxMix(key[32:], s[8], s[9]) + xxMix(key[n-48:], s[10], s[11])
			if n > 96 {
				acc += xxMix(key[48:], s[12], s[13]) + xxMix(key[n-64:], s[14], s[15])
			}
		}
	}
	return xxAvalanche(acc)
}

// xxh3To240 hashes 129 to 240 bytes, 16 at a time.
func xxh3To240(key []byte) uint64 {
	acc := uint64(len(key)) * xxPrime64n1
	for i := range 8 {
		acc += xxMix(key[16*i:], xxSecret[2*i], xxSecret[2*i+1])
	}
	acc = xxAvalanche(acc)
	for i := 8; i < len(key)/16; i++ {
		at := (i-8)*16 + 3
		acc += xxMix(key[16*i:], xxSecretAt(at), xxSecretAt(at+8))
	}
	return xxAvalanche(acc + xxMix(key[len(key)-16:], xxSecretAt(119), xxSecretAt(127)))
}

// xxh3Long hashes more than 240 bytes: blocks of 16 stripes of 64 bytes.
func xxh3Long(key []byte) uint64 {
	const stripe, block = 64, 1024
	acc := [8]uint64{
		xxPrime32n3, xxPrime64n1, xxPrime64n2, xxPrime64n3, xxPrime64n4, xxPrime32n2, xxPrime64n5, xxPrime32n1,
	}
	rest := key
	for len(rest) > block {
		for n := range block / stripe {
			xxAccumulate(&acc, rest[stripe*n:], (*[8]uint64)(xxSecret[n:]))
		}
		for i := range acc {
			acc[i] = (acc[i] ^ acc[i]>>47 ^ xxSecret[16+i]) * xxPrime32n1
		}
		rest = rest[block:]
	}
	for n := range (len(rest) - 1) / stripe {
		xxAccumulate(&acc, rest[stripe*n:], (*[8]uint64)(xxSecret[n:]))
	}
	var secret [8]uint64
	for i := range secret {
		secret[i] = xxSecretAt(121 + 8*i)
	}
	xxAccumulate(&acc, key[len(key)-stripe:], &secret)

	result := uint64(len(key)) * xxPrime64n1
	for i := 0; i < 8; i += 2 {
		result += xxFold(acc[i]^xxSecretAt(11+8*i), acc[i+1]^xxSecretAt(19+8*i))
	}
	return xxAvalanche(result)
}

// xxAccumulate adds the first 64 bytes of stripe to acc.
func xxAccumulate(acc *[8]uint64, stripe []byte, secret *[8]uint64) {
	stripe = stripe[:64]
	for i, s := range secret {
		word := binary.LittleEndian.Uint64(stripe[8*i:])
		v := word ^ s
		acc[i^1] += word
		acc[i] += v & 0xffffffff * (v >> 32)
	}
}

// xxMix is the specification's mixStep of the first 16 bytes of b.
func xxMix(b []byte, secret0, secret1 uint64) uint64 {
	return xxFold(binary.LittleEndian.Uint64(b)^secret0, binary.LittleEndian.Uint64(b[8:])^secret1)
}

// xxFold multiplies to 128 bits and returns the xor of the halves.
func xxFold(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}

func xxAvalanche(v uint64) uint64 {
	v ^= v >> 37
	v *= xxPrimeMx1
	return v ^ v>>32
}

// xx64Avalanche is the avalanche of XXH64, which XXH3 uses for fewer than four bytes.
func xx64Avalanche(v uint64) uint64 {
	v ^= v >> 33
	v *= xxPrime64n2
	v ^= v >> 29
	v *= xxPrime64n3
	return v ^ v>>32
}
