package filter

import (
	"slices"

	"github.com/sievedb/sievedb/util"
)

const (
	// DefaultBitsPerKey is the bits a key of the zero BloomPolicy: about one
	// false positive in a hundred.
	DefaultBitsPerKey = 10

	// MaxBitsPerKey is the most bits a key that a BloomPolicy takes. k stops
	// growing at 44, and the 32-bit hash decides the rate from about 20.
	MaxBitsPerKey = 100
)

// These reach the disk and never change; all are LevelDB's (util/bloom.cc).
const (
	bloomName      = "leveldb.BuiltinBloomFilter2"
	bloomSeed      = 0xbc9f1d34
	bloomRotate    = 17 // delta is the hash rotated right by this
	minBloomBits   = 64 // smaller filters err too often
	maxBloomHashes = 30 // a k above it is kept for later encodings
)

// maxBloomBytes keeps the number of bits below 2^32. LevelDB has no such limit,
// but bits beyond it would never be set.
const maxBloomBytes = 1<<29 - 1

// BloomPolicy is a bloom filter in one of two layouts, or in both; see the
// package comment for their bytes. NewBloomPolicy makes LevelDB's filters byte
// for byte, "leveldb.BuiltinBloomFilter2"; NewCacheLineBloomPolicy makes those
// of "sievedb.CacheLineBloom", which are asked faster and err equally seldom for
// keys of every shape; NewDualBloomPolicy makes both. It is a Policy, a
// GeneratorPolicy and a DirectPolicy.
//
// It is a small value: compare policies with ==. The zero BloomPolicy is
// NewBloomPolicy(DefaultBitsPerKey). The bits a key matter to new filters only;
// any BloomPolicy of a layout reads any filter of its name.
type BloomPolicy struct {
	layout bloomLayout
	// bitsPerKey is 0 for DefaultBitsPerKey, never that number itself, so that
	// the zero value is useful and equal policies compare equal.
	bitsPerKey uint8
}

// bloomLayout says where a key's bits are.
type bloomLayout uint8

const (
	levelDBLayout   bloomLayout = iota
	cacheLineLayout             // all bits of a key in one cache line
	dualLayout                  // a filter of each; asked as cacheLineLayout
)

var (
	_ GeneratorPolicy = BloomPolicy{}
	_ DirectPolicy    = BloomPolicy{}
	_ VersionedPolicy = BloomPolicy{}
)

// NewBloomPolicy returns the policy of LevelDB's filters that spends about
// bitsPerKey bits on each key. Below 1 it takes 1, and above MaxBitsPerKey it
// takes MaxBitsPerKey.
//
// A filter has at least 64 bits and fewer than 2^32 (half a gigabyte: 429
// million keys at ten bits). Filters of more keys get fewer bits for each.
func NewBloomPolicy(bitsPerKey int) BloomPolicy { return newBloomPolicy(levelDBLayout, bitsPerKey) }

// NewCacheLineBloomPolicy returns the policy of cache-line filters that spends
// about bitsPerKey bits on each key, within the bounds of NewBloomPolicy. LevelDB
// and goleveldb pass these filters over: they read the tables unfiltered.
//
// A filter is a multiple of 512 bits below two gigabytes (1.7 thousand million
// keys at ten bits). Filters of more keys get fewer bits for each.
func NewCacheLineBloomPolicy(bitsPerKey int) BloomPolicy {
	return newBloomPolicy(cacheLineLayout, bitsPerKey)
}

// NewDualBloomPolicy returns the policy of tables that carry both filters, each
// of bitsPerKey bits a key: the cache-line one, which is asked here, and
// LevelDB's for LevelDB and goleveldb. Whoever writes tables does the same for it
// as for Several(NewCacheLineBloomPolicy(b), NewBloomPolicy(b)); as a Policy it is
// the first of these.
func NewDualBloomPolicy(bitsPerKey int) BloomPolicy { return newBloomPolicy(dualLayout, bitsPerKey) }

func newBloomPolicy(layout bloomLayout, bitsPerKey int) BloomPolicy {
	b := clampBitsPerKey(bitsPerKey)
	if b == DefaultBitsPerKey {
		b = 0
	}
	return BloomPolicy{layout: layout, bitsPerKey: uint8(b)}
}

// BitsPerKey returns the bits a key that p spends, within 1..MaxBitsPerKey, on
// each of its filters.
func (p BloomPolicy) BitsPerKey() int {
	if p.bitsPerKey == 0 {
		return DefaultBitsPerKey
	}
	return int(p.bitsPerKey)
}

// Name returns "leveldb.BuiltinBloomFilter2", or "sievedb.CacheLineBloom" for a
// policy that makes those, with others or alone.
func (p BloomPolicy) Name() string {
	if p.layout == levelDBLayout {
		return bloomName
	}
	return cacheLineName
}

// CreateFilter implements Policy. It allocates only where dst has no room.
func (p BloomPolicy) CreateFilter(dst []byte, keys [][]byte) []byte {
	if p.layout != levelDBLayout {
		return appendCacheLine(dst, keys, p.BitsPerKey())
	}
	dst, filter := appendEmptyBloom(dst, len(keys), p.BitsPerKey())
	w := newBloomWriter(filter)
	for _, key := range keys {
		w.set(bloomHash(key))
	}
	return dst
}

// KeyMayMatch implements Policy. It suits single questions: NewProbe prepares
// what it computes anew each time. It allocates nothing.
func (p BloomPolicy) KeyMayMatch(key, filter []byte) bool {
	return p.HashMayMatchFilter(p.KeyHash(key), filter)
}

// HashMayMatchFilter implements DirectPolicy.
func (p BloomPolicy) HashMayMatchFilter(hash uint64, filter []byte) bool {
	if p.layout != levelDBLayout {
		probe, verdict := parseCacheLine(filter)
		return verdict == alwaysMatch || probe.HashMayMatch(hash)
	}
	bits, k, verdict := parseBloom(filter)
	if verdict != askBits {
		return verdict == alwaysMatch
	}
	return plainMayMatch(bits, k, uint32(hash))
}

// KeyHash implements HashPolicy. LevelDB's hash has 32 bits, that of cache lines
// 64.
func (p BloomPolicy) KeyHash(key []byte) uint64 {
	if p.layout != levelDBLayout {
		return cacheLineHash(key)
	}
	return uint64(bloomHash(key))
}

// NewProbe implements HashPolicy.
func (p BloomPolicy) NewProbe(filter []byte) Probe {
	if p.layout != levelDBLayout {
		probe, verdict := parseCacheLine(filter)
		if verdict != askBits {
			return fixedProbe(true)
		}
		return &probe
	}
	bits, k, verdict := parseBloom(filter)
	if verdict != askBits {
		return fixedProbe(verdict == alwaysMatch)
	}
	probe := makeBloomProbe(bits, k)
	return &probe
}

// Understands implements VersionedPolicy. LevelDB's encoding has no versions:
// whatever bytes, they are asked as LevelDB would.
func (p BloomPolicy) Understands(filter []byte) bool {
	if p.layout == levelDBLayout {
		return true
	}
	_, verdict := parseCacheLine(filter)
	return verdict == askBits
}

// NewGenerator implements GeneratorPolicy. The generator keeps four bytes a key
// for LevelDB's layout, eight for cache lines.
func (p BloomPolicy) NewGenerator() Generator {
	if p.layout != levelDBLayout {
		return &cacheLineGenerator{bitsPerKey: p.BitsPerKey()}
	}
	return &bloomGenerator{bitsPerKey: p.BitsPerKey()}
}

type bloomGenerator struct {
	bitsPerKey int
	hashes     []uint32
}

func (g *bloomGenerator) Add(key []byte) { g.hashes = appendDoubling(g.hashes, bloomHash(key)) }
func (g *bloomGenerator) Len() int       { return len(g.hashes) }

func (g *bloomGenerator) AppendFilter(dst []byte) []byte {
	dst = appendBloom(dst, g.hashes, g.bitsPerKey)
	g.hashes = g.hashes[:0]
	return dst
}

// appendDoubling appends to what is kept of a table's keys, which doubles when it is full: growing as append
// does, by a quarter, copies each hash of a table five times and leaves as much
// garbage.
func appendDoubling[T any](kept []T, one T) []T {
	if len(kept) == cap(kept) {
		kept = slices.Grow(kept, max(len(kept), 512))
	}
	return append(kept, one)
}

func bloomHash(key []byte) uint32 { return util.Hash(key, bloomSeed) }

// appendBloom appends to dst the filter of keys with these hashes.
func appendBloom(dst []byte, hashes []uint32, bitsPerKey int) []byte {
	dst, filter := appendEmptyBloom(dst, len(hashes), bitsPerKey)
	w := newBloomWriter(filter)
	for _, h := range hashes {
		w.set(h)
	}
	return dst
}

// appendEmptyBloom appends to dst a filter for the given number of keys with no
// bit set, and returns dst and, within it, the filter.
func appendEmptyBloom(dst []byte, keys, bitsPerKey int) (extended, filter []byte) {
	bytes, k := bloomShape(uint64(keys), bitsPerKey)
	start, size := len(dst), int(bytes)+1
	dst = slices.Grow(dst, size)[:start+size]
	filter = dst[start:]
	clear(filter) // spare capacity holds whatever was there before
	filter[size-1] = byte(k)
	return dst, filter
}

// bloomVerdict says what a filter's form tells before any bit is asked.
type bloomVerdict uint8

const (
	neverMatch bloomVerdict = iota
	alwaysMatch
	askBits
)

// parseBloom takes a filter apart: its bit array, of 1 to maxBloomBytes bytes,
// and k, within 1..maxBloomHashes, when the verdict is askBits.
func parseBloom(filter []byte) (bits []byte, k int, verdict bloomVerdict) {
	n := len(filter) - 1
	if n < 1 {
		return nil, 0, neverMatch
	}
	k = int(filter[n])
	if k == 0 || k > maxBloomHashes || n > maxBloomBytes {
		return nil, 0, alwaysMatch
	}
	return filter[:n], k, askBits
}
