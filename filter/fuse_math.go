package filter

import (
	"math"

	"github.com/sievedb/sievedb/internal/base/fuse"
)

// PredictedRate returns the expected false-positive rate, 0 to 1, of a filter of the given
// number of distinct keys: 2^-b for slots of b bits, combined with the probability that another
// key has the same 64-bit hash. It is 1 for more keys than a filter can have.
func (p FusePolicy) PredictedRate(keys uint64) float64 {
	if keys > p.maxKeys() {
		return 1
	}
	return fuseRate(keys, p.SlotBits())
}

func fuseRate(keys uint64, slotBits int) float64 {
	sameHash := SameHashRate(keys, 64)
	return sameHash + (1-sameHash)*math.Ldexp(1, -slotBits)
}

func (p FusePolicy) maxKeys() uint64 { return uint64(fuse.MaxPackedKeys(uint(p.SlotBits()))) }

// FilterSize returns the size in bytes of a filter of the given number of distinct keys. About one filter in ten is
// larger by a 32nd, and one in a hundred by two, because there is no solution in this size.
func (p FusePolicy) FilterSize(keys uint64) uint64 { return p.sizeAt(keys, 0) }

// Fits reports whether filter has the form of p's filters of the given number of distinct keys: the
// bits of the slots and the size. All filters that p makes of so many keys have it, except those that
// rule nothing out. The name in the table does not distinguish policies with other bits.
func (p FusePolicy) Fits(filter []byte, keys uint64) bool {
	_, slotBits, ok := slotsOfFuse(filter)
	if !ok || slotBits != p.SlotBits() || keys > p.maxKeys() {
		return false
	}
	end := fuseTailBytes // number, lg, version
	if fuseVersionOf(filter) == fusePackedVersion {
		end += fusePackedEnd
	}
	number := filter[len(filter)-end] // of the try that succeeded, on which the size depends
	return uint64(len(filter)) == p.sizeAt(keys, number)
}

func (p FusePolicy) sizeAt(keys uint64, try uint8) uint64 {
	packed := p.slotBits != 0
	switch {
	case keys > p.maxKeys() && packed:
		return fuseTailBytes + 1
	case keys > p.maxKeys():
		return fuseTailBytes
	case packed:
		return fuse.PackedSize(fuse.PackedShape(int(keys), try), uint(p.slotBits)) + fusePackedEnd
	}
	return fuse.ShapeFor(int(keys), try).Slots() + fuseTailBytes
}

// keysOfFuse returns the largest number of keys of a filter with that many slots.
func keysOfFuse(slots uint64) uint64 {
	low, high := uint64(0), min(slots, fuse.MaxKeys)
	for low < high {
		if n := (low + high + 1) / 2; fuse.ShapeFor(int(n), 0).Slots() <= slots {
			low = n
		} else {
			high = n - 1
		}
	}
	return low
}

// fuseSlotsPerKey is the number of slots per key of a filter of some ten thousand keys, a typical table.
const fuseSlotsPerKey = 1.17

// Curve returns the rates of p's filters with slots of 0 to MaxFuseBits bits. The caller owns the slice.
func (FusePolicy) Curve() Curve {
	c := Curve{1}
	for b := 1; b <= MaxFuseBits; b++ {
		c = append(c, fuseRate(1<<15, b))
	}
	return c
}
