package standalone

import (
	"bytes"
	"encoding"
	"fmt"
	"math"

	"github.com/sievedb/sievedb/internal/base/fuse"
	"github.com/sievedb/sievedb/util"
)

const (
	staticKind    = 'k'                // the first byte of a saved filter; never changes
	staticMix     = 0xd6e8feb86659fd93 // an arbitrary odd number; never changes
	maxStaticKeys = fuse.MaxKeys / 2   // keys, and as many known negatives
)

// Static is a filter of a fixed set of keys that has no false positives among a list of absent keys
// that is known when it is made, the known negatives: the addresses that must not be blocked, or the
// queries that failed most often. For other absent keys it has a false-positive rate as any filter.
//
// It is a binary fuse filter with slots of b bits, which 2^-b of the known negatives pass, and a second one with slots
// of 1 bit for the keys and these known negatives, whose stored bit is inverted. The second one uses 1.07 to 1.2 bits
// per key, for 100,000 keys 1.12, and halves the rate of other absent keys, as another bit in the slots of the first
// would. So known negatives cost hardly any memory, but a second probe for each key that passes the first. Making a
// Static filter needs 32 bytes of memory for each key and known negative that passes, besides the hashes.
//
// Use NewStatic or UnmarshalBinary to make a Static filter. It is safe for concurrent queries, but
// UnmarshalBinary must not run concurrently with other calls.
type Static struct {
	data   []byte // both arrays, and a byte for fuse.Packed
	size   int    // of the first
	first  fuse.Packed
	second fuse.Packed // if data has it
}

var (
	_ encoding.BinaryAppender    = (*Static)(nil)
	_ encoding.BinaryMarshaler   = (*Static)(nil)
	_ encoding.BinaryUnmarshaler = (*Static)(nil)
)

// NewStatic returns the filter of the keys with slots of slotBits bits, 1 to 16, that answers "no" for each of the
// known negatives. It retains none of them. Both lists may contain duplicates. It returns an error if slotBits is out
// of range, if a key is in both lists, or if there are more than 268 million keys or known negatives.
func NewStatic(keys, negatives [][]byte, slotBits int) (*Static, error) {
	if slotBits < 1 || slotBits > fuse.MaxWidth {
		return nil, fmt.Errorf("standalone: slots of %d bits; want 1 to %d", slotBits, fuse.MaxWidth)
	}
	if most := fuse.MaxPackedKeys(uint(slotBits)) / 2; len(keys) > most || len(negatives) > maxStaticKeys {
		return nil, fmt.Errorf("standalone: %d keys and %d known negatives; at most %d and %d are supported",
			len(keys), len(negatives), most, maxStaticKeys)
	}
	hashes := make([]uint64, len(keys))
	for i, key := range keys {
		hashes[i] = util.XXH3(key)
	}
	var solver fuse.Solver
	data, hashes, ok := solver.AppendPacked(nil, hashes, uint(slotBits), fuse.Tries, fuse.Fingerprints)
	if !ok {
		return nil, errNoSolution(len(keys))
	}
	s := &Static{data: append(data, 0), size: len(data)}
	if err := s.parse(); err != nil {
		return nil, err
	}
	passed := map[uint64]int{} // the hashes of known negatives that pass, and where they are in the list
	for i, key := range negatives {
		if h := util.XXH3(key); s.first.HashMayMatch(h) {
			passed[h] = i
		}
	}
	if len(passed) == 0 {
		return s, nil
	}
	for i, key := range keys {
		if at, both := passed[util.XXH3(key)]; both {
			return nil, fmt.Errorf("standalone: key %d is also known negative %d; a key cannot be both (counted from 0)", i, at)
		}
	}
	if err := s.addSecond(&solver, hashes, passed); err != nil {
		return nil, err
	}
	return s, nil
}

func errNoSolution(keys int) error {
	return fmt.Errorf("standalone: found no filter for %d keys; this happens only to keys made for it", keys)
}

// secondHash is the hash of the second filter. Were it that of the first, the second would be one of the
// bits of the first again.
func secondHash(h uint64) uint64 { return (h ^ h>>32) * staticMix }

// addSecond makes the second filter, for the hashes of the keys and of the negatives that pass the first.
func (s *Static) addSecond(solver *fuse.Solver, hashes []uint64, negatives map[uint64]int) error {
	all := make([]uint64, 0, len(hashes)+len(negatives))
	for _, h := range hashes {
		all = append(all, secondHash(h))
	}
	for h := range negatives {
		all = append(all, secondHash(h))
	}
	data, _, ok := solver.AppendPacked(s.data[:s.size], all, 1, fuse.Tries, func(shape fuse.Shape) func(uint64) uint32 {
		inverted := make(map[uint64]bool, len(negatives))
		for h := range negatives {
			inverted[shape.Mix(secondHash(h))] = true
		}
		return func(mixed uint64) uint32 {
			if inverted[mixed] {
				return ^fuse.Fingerprint(mixed)
			}
			return fuse.Fingerprint(mixed)
		}
	})
	if !ok {
		return errNoSolution(len(all))
	}
	s.data = append(data, 0)
	return s.parse()
}

const staticPart = "static filter"

// parse finds both filters in data, which size divides.
func (s *Static) parse() error {
	rest := len(s.data) - 1 - s.size
	if s.size < 0 || rest < 0 {
		return corruptf(staticPart, "the first array has %d bytes of %d", s.size, len(s.data)-1)
	}
	var ok bool
	if s.first, ok = fuse.ParsePacked(s.data, rest+1); !ok {
		return corruptf(staticPart, "the first array, of %d bytes, is malformed", s.size)
	}
	if rest == 0 {
		return nil
	}
	if s.second, ok = fuse.ParsePacked(s.data[s.size:], 1); !ok || s.second.Width() != 1 {
		return corruptf(staticPart, "the second array, of %d bytes, is malformed", rest)
	}
	return nil
}

func (s *Static) hasSecond() bool { return s.size+1 < len(s.data) }

// MayContain reports whether key may be in the filter. It is true for each key, and false for each known
// negative. It allocates nothing.
func (s *Static) MayContain(key []byte) bool {
	h := util.XXH3(key)
	return s.first.HashMayMatch(h) && (!s.hasSecond() || s.second.HashMayMatch(secondHash(h)))
}

// SizeBytes returns the size of the filter's arrays in bytes.
func (s *Static) SizeBytes() int { return len(s.data) - 1 }

// PredictedRate returns the expected false-positive rate, 0 to 1, for absent keys that are not known negatives.
func (s *Static) PredictedRate() float64 {
	bits := int(s.first.Width())
	if s.hasSecond() {
		bits++
	}
	return math.Ldexp(1, -bits)
}

// AppendBinary appends the filter to dst in a format that UnmarshalBinary reads and that never
// changes. The error is always nil.
//
//	size     meaning
//	-------  ------------------------------------------------------------------
//	2        'k', 1 (the version)
//	8        the size of the first array, little-endian
//	...      the first array, as in a binary fuse filter of version 2 of package filter up to
//	         the width; the hash of a key is XXH3-64, seed 0
//	...      the second array likewise, with slots of 1 bit, or nothing; the hash of a key is
//	         (h xor h / 2^32) × 0xd6e8feb86659fd93, modulo 2^64, if h is its hash for the first
//	4        masked CRC-32C of all bytes above
//
// A key may be in the filter if its print is the xor of its slots in each of the arrays.
func (s *Static) AppendBinary(dst []byte) ([]byte, error) {
	start := len(dst)
	dst = append(dst, staticKind, version)
	dst = util.AppendFixed64(dst, uint64(s.size))
	dst = append(dst, s.data[:len(s.data)-1]...)
	return appendChecksum(dst, start), nil
}

// MarshalBinary is AppendBinary with a nil slice.
func (s *Static) MarshalBinary() ([]byte, error) { return s.AppendBinary(nil) }

// UnmarshalBinary replaces the filter with a saved one. It does not retain data. If data is
// not a saved filter, the error wraps ErrCorrupt and the filter is unchanged.
func (s *Static) UnmarshalBinary(data []byte) error {
	b, err := openSaved(data, staticPart, staticKind)
	if err != nil {
		return err
	}
	if len(b) < 8 {
		return corruptf(staticPart, "%d bytes are too few for the header", len(data))
	}
	size, b := util.Fixed64(b), b[8:]
	if size > uint64(len(b)) {
		return corruptf(staticPart, "the first array has %d bytes, but only %d follow", size, len(b))
	}
	saved := Static{data: append(bytes.Clone(b), 0), size: int(size)}
	if err := saved.parse(); err != nil {
		return err
	}
	*s = saved
	return nil
}
