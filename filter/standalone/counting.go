package standalone

import (
	"bytes"
	"encoding"
	"math"

	"github.com/sievedb/sievedb/util"
)

const (
	countingKind = 'c' // the first byte of a saved filter; never changes
	fullCounter  = 15  // a counter with this value never changes again
)

// Counting is a bloom filter from which keys can be removed: it has 4-bit counters instead of bits. It uses four times
// the memory of a bloom filter, 4.8 bytes per key for a false-positive rate of 1 %.
//
// A key that is added several times must be removed as often. A counter that reaches 15 stays there, because it cannot
// count further: a key that was added fifteen times or more may never be denied again. The filter denies no key in the
// set, provided that only keys in the set are removed.
//
// Use NewCounting or UnmarshalBinary to make a Counting filter. It is safe for concurrent
// queries, but Add, Remove and UnmarshalBinary must not run concurrently with other calls.
//
// Source: Fan, Cao, Almeida and Broder, "Summary Cache", 2000, section V.
type Counting struct {
	counters []byte // two per byte, the lower half first
	slots    uint64
	k        int
	keys     uint64
}

var (
	_ encoding.BinaryAppender    = (*Counting)(nil)
	_ encoding.BinaryMarshaler   = (*Counting)(nil)
	_ encoding.BinaryUnmarshaler = (*Counting)(nil)
)

// NewCounting returns an empty filter whose false-positive rate is the given one, above 0 and below 1, with
// the given number of keys, on average over the filters of as many keys: with ten keys, one filter
// may have twice the rate of another. With more keys the rate is higher. It returns an error if rate
// is out of range, or if the filter would be larger than a gigabyte.
func NewCounting(keys uint64, rate float64) (*Counting, error) {
	slots, k, err := slotsForRate(keys, rate, 2)
	if err != nil {
		return nil, err
	}
	return &Counting{counters: make([]byte, (slots+1)/2), slots: slots, k: k}, nil
}

func (c *Counting) counter(at uint64) byte { return c.counters[at/2] >> (at % 2 * 4) & 15 }

// Add adds key.
func (c *Counting) Add(key []byte) {
	c.keys++
	p := placesOf(key, c.slots)
	for range c.k {
		if at := p.next(); c.counter(at) < fullCounter {
			c.counters[at/2] += 1 << (at % 2 * 4)
		}
	}
}

// Remove undoes one Add of key. It returns false, and changes nothing, if key is certainly not in the filter. Removing
// a key that was not added, but for which MayContain is true, makes the filter deny keys that are in it.
func (c *Counting) Remove(key []byte) bool {
	if !c.MayContain(key) {
		return false
	}
	c.keys -= min(c.keys, 1)
	p := placesOf(key, c.slots)
	for range c.k {
		// The counter may be 0, because two places of a key that was not added may coincide.
		if at := p.next(); c.counter(at) != 0 && c.counter(at) != fullCounter {
			c.counters[at/2] -= 1 << (at % 2 * 4)
		}
	}
	return true
}

// MayContain reports whether key may be in the filter.
func (c *Counting) MayContain(key []byte) bool {
	if c.slots == 0 {
		return false
	}
	p := placesOf(key, c.slots)
	for range c.k {
		if c.counter(p.next()) == 0 {
			return false
		}
	}
	return true
}

// Len returns the number of keys that were added and not removed.
func (c *Counting) Len() uint64 { return c.keys }

// SizeBytes returns the size of the counters in bytes.
func (c *Counting) SizeBytes() int { return len(c.counters) }

// PredictedRate returns the filter's expected false-positive rate, 0 to 1, from the counters that are not 0. It
// reads the whole filter.
func (c *Counting) PredictedRate() float64 {
	set := 0
	for _, two := range c.counters {
		set += int((two&15+15)>>4) + int((two>>4+15)>>4)
	}
	return math.Pow(float64(set)/float64(max(c.slots, 1)), float64(c.k))
}

// AppendBinary appends the filter to dst in a format that UnmarshalBinary reads and that never
// changes. The error is always nil.
//
//	size         meaning
//	-----------  ------------------------------------------------------------
//	2            'c', 1 (the version)
//	8            the number of keys, little-endian like the other numbers
//	8            the number of counters, at least 1
//	1            k, the counters of a key, 1 to 64; for i of 1 to k one of them is
//	             number g × counters / 2^64, rounded down, where g is m / 2^64, rounded
//	             down, xor m modulo 2^64, m is s × (s xor 0xd6e8feb86659fd93), and s is
//	             XXH3-64 of the key + i × 0x9e3779b97f4a7c15, modulo 2^64
//	counters/2   the counters, two per byte, the lower four bits first; rounded up
//	4            masked CRC-32C of all bytes above
func (c *Counting) AppendBinary(dst []byte) ([]byte, error) {
	start := len(dst)
	dst = append(dst, countingKind, version)
	dst = util.AppendFixed64(dst, c.keys)
	dst = util.AppendFixed64(dst, c.slots)
	dst = append(dst, byte(c.k))
	dst = append(dst, c.counters...)
	return appendChecksum(dst, start), nil
}

// MarshalBinary is AppendBinary with a nil slice.
func (c *Counting) MarshalBinary() ([]byte, error) { return c.AppendBinary(nil) }

// UnmarshalBinary replaces the filter with a saved one. It does not retain data. If data is
// not a saved filter, the error wraps ErrCorrupt and the filter is unchanged.
func (c *Counting) UnmarshalBinary(data []byte) error {
	const part = "counting bloom filter"
	b, err := openSaved(data, part, countingKind)
	if err != nil {
		return err
	}
	if len(b) < 17 {
		return corruptf(part, "%d bytes are too few for the header", len(data))
	}
	keys, slots, k, counters := util.Fixed64(b), util.Fixed64(b[8:]), int(b[16]), b[17:]
	if slots == 0 || slots/2+slots%2 != uint64(len(counters)) || k < 1 || k > maxPlaceHashes {
		return corruptf(part, "%d bytes of counters do not fit %d counters and %d per key", len(counters), slots, k)
	}
	if slots%2 != 0 && counters[slots/2]>>4 != 0 {
		return corruptf(part, "the unused half of the last byte is not zero")
	}
	*c = Counting{counters: bytes.Clone(counters), slots: slots, k: k, keys: keys}
	return nil
}
