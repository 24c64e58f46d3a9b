package util

import "encoding/binary"

const (
	hashMul       = 0xc6a4a793
	hashTailShift = 24
)

// Hash is LevelDB's 32-bit hash (its util/hash.cc), similar to Murmur. The bits of every bloom
// filter in a file depend on it: it never changes.
//
// It reads four bytes at a time, little-endian, and adds the last one to three bytes as unsigned
// numbers (as LevelDB since 1.18; see HashSignedTail). It is fast for short keys but not a strong
// hash: after each word only 32 bits of state remain, barely mixed, so keys that are decimal or
// hexadecimal counters often have equal hashes. If that matters, use a 64-bit hash such as XXH3.
func Hash(data []byte, seed uint32) uint32 {
	h, tail := hashWords(data, seed)
	if len(tail) == 0 {
		return h
	}
	switch len(tail) {
	case 3:
		h += uint32(tail[0]) | uint32(tail[1])<<8 | uint32(tail[2])<<16
	case 2:
		h += uint32(tail[0]) | uint32(tail[1])<<8
	default:
		h += uint32(tail[0])
	}
	h *= hashMul
	return h ^ h>>hashTailShift
}

// HashSignedTail is Hash as LevelDB before 1.18 computed it on machines with a signed char, such as x86: the last one
// to three bytes count as numbers in -128..127. It returns the same as Hash unless one of those bytes is 0x80 or more.
// Only filters under the old name "leveldb.BuiltinBloomFilter" need it.
func HashSignedTail(data []byte, seed uint32) uint32 {
	h, tail := hashWords(data, seed)
	if len(tail) == 0 {
		return h
	}
	for i, c := range tail {
		h += uint32(int32(int8(c))) << (8 * i) // sign-extended, then shifted
	}
	h *= hashMul
	return h ^ h>>hashTailShift
}

// hashWords hashes the whole words of data and returns the tail of at most three bytes.
func hashWords(data []byte, seed uint32) (h uint32, tail []byte) {
	h = seed ^ uint32(len(data))*hashMul
	for len(data) >= 4 {
		h += binary.LittleEndian.Uint32(data)
		h *= hashMul
		h ^= h >> 16
		data = data[4:]
	}
	return h, data
}
