package standalone

import (
	"bytes"
	"encoding"
	"math"
	"math/bits"

	"github.com/sievedb/sievedb/util"
)

const (
	scalableKind  = 's' // the first byte of a saved filter; never changes
	stageHeadSize = 25
	maxStages     = 64 // of a saved filter; each has twice the capacity of the one before
)

// Scalable is a bloom filter that grows, for sets whose size is not known beforehand. When it is as full as its planned
// number of keys would make it, it adds another filter for twice as many keys, and so on. Each filter has half the
// false-positive rate of the one before, so that the total rate stays below the given one for any number of keys. This
// costs two to four times the memory of a bloom filter made for the right number. A lookup queries the newest and
// largest filter first; for an absent key it queries all of them.
//
// Use NewScalable or UnmarshalBinary to make a Scalable filter. It is safe for concurrent
// queries, but Add and UnmarshalBinary must not run concurrently with other calls.
//
// Source: Almeida, Baquero, Preguiça and Hutchison, "Scalable Bloom Filters", 2007,
// with a growth of 2 and a tightening ratio of 1/2.
type Scalable struct {
	rate   float64
	stages []bloomStage
}

// bloomStage is one of the filters of a Scalable.
type bloomStage struct {
	bits     []byte
	slots    uint64
	k        int
	keys     uint64 // how many keys were new when they were added
	capacity uint64 // the planned number of keys
	ones     uint64 // how many bits are set; these, and not keys, decide when the stage is full
}

var (
	_ encoding.BinaryAppender    = (*Scalable)(nil)
	_ encoding.BinaryMarshaler   = (*Scalable)(nil)
	_ encoding.BinaryUnmarshaler = (*Scalable)(nil)
)

// NewScalable returns an empty filter whose false-positive rate is at most rate, above 0 and
// below 1, and which has a capacity of the given number of keys, at least 1, before it grows. It
// returns an error if rate is out of range, or if that capacity needs more than a gigabyte.
func NewScalable(keys uint64, rate float64) (*Scalable, error) {
	if !(rate < 1) {
		_, _, err := slotsForRate(keys, rate, 8)
		return nil, err
	}
	stage, err := newBloomStage(max(keys, 1), rate/2)
	if err != nil {
		return nil, err
	}
	return &Scalable{rate: rate, stages: []bloomStage{stage}}, nil
}

func newBloomStage(keys uint64, rate float64) (bloomStage, error) {
	slots, k, err := slotsForRate(keys, rate, 8)
	if err != nil {
		return bloomStage{}, err
	}
	return bloomStage{bits: make([]byte, (slots+7)/8), slots: slots, k: k, capacity: keys}, nil
}

// grow adds a stage of twice the capacity. If that would be too large, it adds a stage of the
// same capacity or of half of it. With maxStages stages the last one fills up instead.
func (s *Scalable) grow() {
	i := len(s.stages)
	if i == maxStages {
		return
	}
	capacity, rate := s.stages[i-1].capacity, s.stageRate(i)
	for _, keys := range []uint64{2 * capacity, capacity, capacity / 2} {
		if stage, err := newBloomStage(max(keys, 1), rate); err == nil {
			s.stages = append(s.stages, stage)
			return
		}
	}
}

// stageRate returns the false-positive rate that stage i may have.
func (s *Scalable) stageRate(i int) float64 { return math.Ldexp(s.rate, -i-1) }

// rateWith returns the stage's false-positive rate with that many bits set.
func (b *bloomStage) rateWith(ones uint64) float64 {
	return math.Pow(float64(min(ones, b.slots))/float64(b.slots), float64(b.k))
}

// full reports whether another key may raise the stage's false-positive rate above the given one.
// keys cannot decide this: keys that seemed to be in the stage already changed nothing, and those
// that were added set more bits than the average key.
func (b *bloomStage) full(rate float64) bool {
	return b.keys > 0 && b.rateWith(b.ones+uint64(b.k)) > rate
}

func (b *bloomStage) mayContain(key []byte) bool {
	p := placesOf(key, b.slots)
	for range b.k {
		if at := p.next(); b.bits[at/8]>>(at%8)&1 == 0 {
			return false
		}
	}
	return true
}

func (b *bloomStage) add(key []byte) {
	b.keys++
	p := placesOf(key, b.slots)
	for range b.k {
		at := p.next()
		b.ones += uint64(^b.bits[at/8] >> (at % 8) & 1)
		b.bits[at/8] |= 1 << (at % 8)
	}
}

// Add adds key, and reports whether it was new to the filter. A key for which MayContain is already true uses no space.
func (s *Scalable) Add(key []byte) bool {
	if s.MayContain(key) {
		return false
	}
	if last := len(s.stages) - 1; s.stages[last].full(s.stageRate(last)) {
		s.grow()
	}
	s.stages[len(s.stages)-1].add(key)
	return true
}

// MayContain reports whether key may be in the filter.
func (s *Scalable) MayContain(key []byte) bool {
	for i := len(s.stages) - 1; i >= 0; i-- {
		if s.stages[i].mayContain(key) {
			return true
		}
	}
	return false
}

// Len returns how many keys were new to the filter when they were added. It is short of the number of distinct keys by
// those that were false positives then: at most the filter's rate of them, about half of it on average.
func (s *Scalable) Len() (keys uint64) {
	for i := range s.stages {
		keys += s.stages[i].keys
	}
	return keys
}

// SizeBytes returns the size of the filter's bits in bytes.
func (s *Scalable) SizeBytes() (bytes int) {
	for i := range s.stages {
		bytes += len(s.stages[i].bits)
	}
	return bytes
}

// PredictedRate returns the filter's expected false-positive rate, 0 to 1, from the bits that are set.
func (s *Scalable) PredictedRate() float64 {
	denied := 1.0 // by all stages
	for i := range s.stages {
		denied *= 1 - s.stages[i].rateWith(s.stages[i].ones)
	}
	return 1 - denied
}

// AppendBinary appends the filter to dst in a format that UnmarshalBinary reads and that never
// changes. The error is always nil.
//
//	size     meaning
//	-------  ------------------------------------------------------------------
//	2        's', 1 (the version)
//	8        the rate given to NewScalable, IEEE 754 binary64, little-endian like the
//	         other numbers; then for each stage, the oldest first, 1 to 64 of them:
//	8        the number of its keys
//	8        the planned number of keys, at least 1
//	8        the number of bits, at least the planned number of keys
//	1        k, the bits of a key, 1 to 64, numbered like the counters of a
//	         Counting filter are
//	bits/8   the bits, bit i is bit i mod 8 of byte i/8; rounded up
//	4        masked CRC-32C of all bytes above
func (s *Scalable) AppendBinary(dst []byte) ([]byte, error) {
	start := len(dst)
	dst = append(dst, scalableKind, version)
	dst = util.AppendFixed64(dst, math.Float64bits(s.rate))
	for i := range s.stages {
		b := &s.stages[i]
		dst = util.AppendFixed64(dst, b.keys)
		dst = util.AppendFixed64(dst, b.capacity)
		dst = util.AppendFixed64(dst, b.slots)
		dst = append(dst, byte(b.k))
		dst = append(dst, b.bits...)
	}
	return appendChecksum(dst, start), nil
}

// MarshalBinary is AppendBinary with a nil slice.
func (s *Scalable) MarshalBinary() ([]byte, error) { return s.AppendBinary(nil) }

const scalablePart = "scalable bloom filter"

// UnmarshalBinary replaces the filter with a saved one. It does not retain data. If data is
// not a saved filter, the error wraps ErrCorrupt and the filter is unchanged.
func (s *Scalable) UnmarshalBinary(data []byte) error {
	b, err := openSaved(data, scalablePart, scalableKind)
	if err != nil {
		return err
	}
	if len(b) < 8 {
		return corruptf(scalablePart, "%d bytes are too few for the header", len(data))
	}
	saved := Scalable{rate: math.Float64frombits(util.Fixed64(b))}
	if !(saved.rate > 0 && saved.rate < 1) {
		return corruptf(scalablePart, "the rate is %v, want one above 0 and below 1", saved.rate)
	}
	for b = b[8:]; len(b) > 0 && len(saved.stages) < maxStages; {
		var stage bloomStage
		if stage, b, err = decodeBloomStage(b); err != nil {
			return err
		}
		saved.stages = append(saved.stages, stage)
	}
	if len(b) > 0 || len(saved.stages) == 0 {
		return corruptf(scalablePart, "%d stages and %d bytes after them, want 1 to %d stages and no bytes after them",
			len(saved.stages), len(b), maxStages)
	}
	*s = saved
	return nil
}

// decodeBloomStage decodes a stage from the front of b.
func decodeBloomStage(b []byte) (stage bloomStage, rest []byte, err error) {
	if len(b) < stageHeadSize {
		return stage, nil, corruptf(scalablePart, "%d bytes are too few for a stage", len(b))
	}
	stage = bloomStage{keys: util.Fixed64(b), capacity: util.Fixed64(b[8:]), slots: util.Fixed64(b[16:]), k: int(b[24])}
	b = b[stageHeadSize:]
	size := stage.slots/8 + (stage.slots%8+7)/8
	if stage.slots == 0 || size > uint64(len(b)) || stage.capacity == 0 || stage.capacity > stage.slots ||
		stage.k < 1 || stage.k > maxPlaceHashes {
		return stage, nil, corruptf(scalablePart, "invalid stage: %d keys, %d bits per key, %d bits in %d bytes",
			stage.capacity, stage.k, stage.slots, len(b))
	}
	stage.bits, rest = bytes.Clone(b[:size]), b[size:]
	if n := stage.slots % 8; n != 0 && stage.bits[size-1]>>n != 0 {
		return stage, nil, corruptf(scalablePart, "the unused bits of a stage's last byte are not zero")
	}
	for _, ones := range stage.bits {
		stage.ones += uint64(bits.OnesCount8(ones))
	}
	return stage, rest, nil
}
