package standalone

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/sievedb/sievedb/util"
)

// These reach the disk and never change.
const (
	placeStep      = 0x9e3779b97f4a7c15 // 2^64 divided by the golden ratio
	placeMix       = 0xd6e8feb86659fd93 // an arbitrary odd number
	maxPlaceHashes = 64                 // places per key; no 64-bit hash has a rate below 2^-64
)

// maxPlaceBytes is the largest size of an array, so that a saved filter fits in a slice on every machine.
const maxPlaceBytes = 1 << 30

// places generates a key's places among slots: draws from a generator seeded by the key's hash,
// at one multiplication each. (Double hashing, h + i step, would be cheaper but has more false
// positives in small filters, even with 64 bits: 0.016 % instead of 0.005 % for 100 keys.)
type places struct{ state, slots uint64 }

func placesOf(key []byte, slots uint64) places { return places{util.XXH3(key), slots} }

// next returns the next place, below slots.
func (p *places) next() uint64 {
	p.state += placeStep
	hi, lo := bits.Mul64(p.state, p.state^placeMix)
	at, _ := bits.Mul64(hi^lo, p.slots)
	return at
}

// slotsForRate returns k and about the smallest number of slots with which bloom filters of the given number of keys,
// at least 1, have a mean false-positive rate of at most rate. inByte is the number of slots per byte.
func slotsForRate(keys uint64, rate float64, inByte uint64) (slots uint64, k int, err error) {
	if !(rate > 0 && rate < 1) {
		return 0, 0, fmt.Errorf("standalone: the false-positive rate is %v; want one above 0 and below 1", rate)
	}
	k = int(min(max(math.Round(-math.Log2(rate)), 1), maxPlaceHashes))
	// (1 - e^(-k n/m))^k = rate, solved for m.
	keys = max(keys, 1)
	need := math.Ceil(-float64(k) * float64(keys) / math.Log1p(-math.Pow(rate, 1/float64(k))))
	for need <= maxPlaceBytes*float64(inByte) && highestRate(float64(keys), need, float64(k)) > rate {
		need++ // some ten times at most
	}
	if need /= float64(inByte); !(need <= maxPlaceBytes) {
		return 0, 0, fmt.Errorf(
			"standalone: %d keys at a false-positive rate of %v need %.3g bytes; at most %d are supported",
			keys, rate, need, maxPlaceBytes)
	}
	return uint64(need * float64(inByte)), k, nil
}

// highestRate is slightly above the mean rate of filters with these sizes, as
// TestFiltersOfFewKeysKeepTheirRate shows. The rates differ, because the number of slots that are set does:
// with few keys the mean is many times filter.FalsePositiveRate, that of the mean number.
func highestRate(keys, slots, k float64) float64 {
	sets := keys * k
	clear := math.Exp(sets * math.Log1p(-1/slots)) // that a slot is clear; below, that two are
	both := math.Exp(sets * math.Log1p(-2/max(slots, 2)))
	set := 1 - clear
	variance := max(0, (1-1/slots)*both+clear/slots-clear*clear)
	return math.Pow(set, k) * math.Exp(k*(k-1)/2*variance/(set*set))
}
