// Package slot finds the slot of a key, as Redis Cluster does: CRC-16 of the key, or of its tag,
// modulo 16384. (Redis Cluster Specification, "Key distribution model" and "Hash tags".)
package slot

import (
	"bytes"

	"github.com/sievedb/sievedb/cluster/internal/kv"
)

// table is that of CRC-16/XMODEM: polynomial 0x1021, initially 0, not reflected.
var table = func() (t [256]uint16) {
	for i := range t {
		crc := uint16(i) << 8
		for range 8 {
			carry := crc&0x8000 != 0
			crc <<= 1
			if carry {
				crc ^= 0x1021
			}
		}
		t[i] = crc
	}
	return t
}()

// Of returns the slot of a key.
func Of(key []byte) uint16 {
	crc := uint16(0)
	for _, b := range Tag(key) {
		crc = crc<<8 ^ table[byte(crc>>8)^b]
	}
	return crc % kv.SlotCount
}

// Tag returns the part of a key that decides its slot: what is between the first { and the first }
// after it, unless that is empty; otherwise all of it.
func Tag(key []byte) []byte {
	open := bytes.IndexByte(key, '{')
	if open < 0 {
		return key
	}
	length := bytes.IndexByte(key[open+1:], '}')
	if length <= 0 {
		return key
	}
	return key[open+1 : open+1+length]
}

// GroupOf returns the group of a slot if there are so many groups, each of which has a contiguous range of slots.
func GroupOf(slot uint16, groups int) kv.GroupID {
	return kv.GroupID(int(slot) * groups / kv.SlotCount)
}

// Range returns the first and the last slot of a group.
func Range(group kv.GroupID, groups int) (first, last uint16) {
	lowest := func(g int) int { return (g*kv.SlotCount + groups - 1) / groups }
	return uint16(lowest(int(group))), uint16(lowest(int(group)+1) - 1)
}
