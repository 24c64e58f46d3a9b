package standalone

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/sievedb/sievedb/internal/errors"

	"github.com/sievedb/sievedb/util"
)

// ErrCorrupt is in the chain of the errors of UnmarshalBinary: the bytes are not those
// of a filter that AppendBinary saved. (Of filters in tables there is no such error:
// damaged ones rule nothing out.)
var ErrCorrupt = errors.Sentinel("filter: corrupt")

// corruptf tells what is wrong with a saved filter of that kind.
func corruptf(kind, format string, args ...any) error {
	return fmt.Errorf("%w %s: %s", ErrCorrupt, kind, fmt.Sprintf(format, args...))
}

// This file is what the filters have in common: where a key's places are, how many there must be for a rate, and
// the frame in which a filter is saved.

const (
	version        = 1                  // reaches the disk and never changes
	placeStep      = 0x9e3779b97f4a7c15 // so does this, 2^64 divided by the golden ratio
	placeMix       = 0xd6e8feb86659fd93 // and this, an odd number like any other
	maxPlaceHashes = 64                 // places a key; 2^-64 is a rate that no hash of 64 bits has
	maxPlaceBytes  = 1 << 30            // of one array, so that a saved filter fits a slice everywhere
)

// places walks through a key's places among slots: draws from a generator that the
// key's hash starts, one multiplication each. (Double hashing, h + i step, would do with
// less, but errs more often in small filters, also with 64 bits: 100 keys at a rate of
// 0.005 % have 0.016.)
type places struct{ state, slots uint64 }

func placesOf(key []byte, slots uint64) places { return places{util.XXH3(key), slots} }

// next returns the next place, below slots.
func (p *places) next() uint64 {
	p.state += placeStep
	hi, lo := bits.Mul64(p.state, p.state^placeMix)
	at, _ := bits.Mul64(hi^lo, p.slots)
	return at
}

// slotsForRate returns the k and the least slots with which a bloom filter of the
// given number of keys, at least 1, errs in rate of the absent ones at most. There are
// that many slots in a byte.
func slotsForRate(keys uint64, rate float64, inByte uint64) (slots uint64, k int, err error) {
	if !(rate > 0 && rate < 1) {
		return 0, 0, fmt.Errorf("filter: a false-positive rate of %v cannot be had; it must be above 0 and below 1", rate)
	}
	k = int(min(max(math.Round(-math.Log2(rate)), 1), maxPlaceHashes))
	// (1 - e^(-k n/m))^k = rate, solved for m.
	need := math.Ceil(-float64(k) * float64(max(keys, 1)) / math.Log1p(-math.Pow(rate, 1/float64(k))))
	if need /= float64(inByte); !(need <= maxPlaceBytes) {
		return 0, 0, fmt.Errorf("filter: %d keys at a false-positive rate of %v take %.3g bytes; at most %d can be had",
			keys, rate, need, maxPlaceBytes)
	}
	return max(uint64(need*float64(inByte)), 1), k, nil
}

// appendChecksum closes the bytes that a filter is saved in, which begin at start.
func appendChecksum(dst []byte, start int) []byte {
	return util.AppendFixed32(dst, util.MaskCRC(util.CRC32C(dst[start:])))
}

// openSaved checks the kind, the version and the checksum of a saved filter and
// returns what is between them.
func openSaved(data []byte, part string, kind byte) ([]byte, error) {
	n := len(data) - 4
	if n < 2 {
		return nil, corruptf(part, "it has %d bytes, want at least 6", len(data))
	}
	if data[0] != kind || data[1] != version {
		return nil, corruptf(part, "it begins with %#x and version %d, want %#x and %d", data[0], data[1], kind, version)
	}
	if want, got := util.UnmaskCRC(util.Fixed32(data[n:])), util.CRC32C(data[:n]); want != got {
		return nil, corruptf(part, "its checksum is %#08x, its bytes have %#08x", want, got)
	}
	return data[2:n], nil
}
