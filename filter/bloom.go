package filter

import (
	"slices"

	"github.com/sievedb/sievedb/util"
)

// The bytes of LevelDB's bloom filter
//
// A filter of NewBloomPolicy is bit for bit the filter that LevelDB writes (its util/bloom.cc and util/hash.cc) under
// the name "leveldb.BuiltinBloomFilter2". The format never changes.
//
//	bit 7      0 15     8                m-1  m-8
//	+-----------+-----------+-----+-----------+-----------+
//	|  byte 0   |  byte 1   |  …  | byte m/8-1|     k     |
//	+-----------+-----------+-----+-----------+-----------+
//	|<---------- m bits, m a multiple of 8 -->|<- 1 byte >|
//
//	offset  size  meaning
//	------  ----  -----------------------------------------------------------
//	0       m/8   the bits; bit i is bit i mod 8, counted from the lowest, of
//	              byte i/8. m = keys × bits per key, at least 64, rounded up to
//	              whole bytes, and below 2^32
//	m/8     1     k, how many bits each key sets: bits per key × 0.69, rounded
//	              down, within 1..30
//
// There is no magic number, length or checksum; the block that holds the filter has those. A reader derives m from the
// length and reads k from the last byte. It never uses its own settings, so filters made with any settings stay
// readable. Filters that no writer makes are read as follows:
//
//	filter                   answer
//	-----------------------  -----------------------------------------------
//	shorter than two bytes   no (as LevelDB)
//	k = 0                    perhaps (as LevelDB: no bit is tested)
//	k > 30                   perhaps (as LevelDB: reserved for later encodings)
//	m of 2^32 or more        perhaps (LevelDB reads on; no program writes these)
//
// A key sets these bits (double hashing; Kirsch and Mitzenmacher 2006):
//
//	h     = util.Hash(key, 0xbc9f1d34)      32 bits, tail bytes unsigned
//	delta = h rotated right by 17
//	k times:  set bit h mod m;  h = h + delta  (modulo 2^32)
//
// A lookup tests the same bits and stops at the first that is clear.
//
// The name without the 2, "leveldb.BuiltinBloomFilter", is used for two encodings:
// goleveldb's, which is the one above, and that of LevelDB before 1.18, whose h treats
// the tail bytes as signed on most machines. LegacyBloom answers "no" only if both
// encodings would.
//
// By hand: the keys "hello" and "world" at 10 bits per key. 20 bits are too few, so m is
// 64 and the bits use eight bytes; k = 6.
//
//	key    h           delta       h mod 64, then + delta each time
//	-----  ----------  ----------  --------------------------------
//	hello  0xf795964e  0xcb277bca  14  24  34  44  54   0
//	world  0x42c4e8fc  0x747e2162  60  30   0  34   4  38
//
// Both keys set bits 0 and 34, so ten of the 64 bits are ones:
//
//	bits    0,4   14   -    24,30  34,38  44   54   60   k
//	bytes   11    40   00   41     44     10   40   10   06

const (
	// DefaultBitsPerKey is the number of bits per key of the zero BloomPolicy. Its false-positive rate is about 1 %.
	DefaultBitsPerKey = 10

	// MaxBitsPerKey is the largest number of bits per key of a BloomPolicy. k stops
	// growing at 44, and from about 20 bits on the 32-bit hash determines the rate.
	MaxBitsPerKey = 100
)

// These reach the disk and never change; all are LevelDB's (util/bloom.cc).
const (
	bloomName      = "leveldb.BuiltinBloomFilter2"
	bloomSeed      = 0xbc9f1d34
	bloomRotate    = 17 // delta is the hash rotated right by this
	minBloomBits   = 64 // smaller filters have too many false positives
	maxBloomHashes = 30 // a larger k is reserved for later encodings
)

// maxBloomBytes keeps the number of bits below 2^32. LevelDB has no such limit, but it
// would never set the bits beyond it.
const maxBloomBytes = 1<<29 - 1

// BloomPolicy is the policy of bloom filters in one of two layouts, or in both. The comments at the top of bloom.go and
// cacheline.go describe the bytes. NewBloomPolicy makes LevelDB's filters byte for byte, "leveldb.BuiltinBloomFilter2".
// NewCacheLineBloomPolicy makes those of "sievedb.CacheLineBloom", which are faster to query and whose false-positive
// rate does not depend on the shape of the keys. NewDualBloomPolicy makes both. A BloomPolicy implements Policy,
// GeneratorPolicy, DirectPolicy and VersionedPolicy.
//
// It is a small value: compare policies with ==. The zero BloomPolicy equals NewBloomPolicy(DefaultBitsPerKey). The
// bits per key affect only new filters; any BloomPolicy of a layout reads all filters of its name.
type BloomPolicy struct {
	layout bloomLayout
	// bitsPerKey is 0 for DefaultBitsPerKey, never that number, so that the zero value
	// is useful and equal policies compare equal.
	bitsPerKey uint8
}

// bloomLayout says where a key's bits are.
type bloomLayout uint8

const (
	levelDBLayout   bloomLayout = iota
	cacheLineLayout             // all bits of a key in one cache line
	dualLayout                  // a filter of each; queried as cacheLineLayout
)

var (
	_ GeneratorPolicy = BloomPolicy{}
	_ DirectPolicy    = BloomPolicy{}
	_ VersionedPolicy = BloomPolicy{}
)

// NewBloomPolicy returns the policy of LevelDB's filters with about bitsPerKey bits for
// each key. Values below 1 count as 1, and values above MaxBitsPerKey as MaxBitsPerKey.
//
// A filter has at least 64 bits and fewer than 2^32 (half a gigabyte: 429 million keys
// at 10 bits). Filters of more keys have fewer bits per key.
func NewBloomPolicy(bitsPerKey int) BloomPolicy { return newBloomPolicy(levelDBLayout, bitsPerKey) }

// NewCacheLineBloomPolicy returns the policy of cache-line filters with about bitsPerKey bits for each key, within the
// bounds of NewBloomPolicy. LevelDB and goleveldb ignore these filters and read the tables without a filter.
//
// A filter is a multiple of 512 bits and smaller than two gigabytes (1.7 billion keys at
// 10 bits). Filters of more keys have fewer bits per key.
func NewCacheLineBloomPolicy(bitsPerKey int) BloomPolicy {
	return newBloomPolicy(cacheLineLayout, bitsPerKey)
}

// NewDualBloomPolicy returns the policy of tables that carry two filters, each with bitsPerKey bits per key: a
// cache-line filter, which this package queries, and LevelDB's filter for LevelDB and goleveldb. Table writers treat it
// like Several(NewCacheLineBloomPolicy(b), NewBloomPolicy(b)). Its Policy methods are those of the cache-line filter.
func NewDualBloomPolicy(bitsPerKey int) BloomPolicy { return newBloomPolicy(dualLayout, bitsPerKey) }

func newBloomPolicy(layout bloomLayout, bitsPerKey int) BloomPolicy {
	b := clampBitsPerKey(bitsPerKey)
	if b == DefaultBitsPerKey {
		b = 0
	}
	return BloomPolicy{layout: layout, bitsPerKey: uint8(b)}
}

// BitsPerKey returns the number of bits per key, within 1..MaxBitsPerKey, in each of the policy's filters.
func (p BloomPolicy) BitsPerKey() int {
	if p.bitsPerKey == 0 {
		return DefaultBitsPerKey
	}
	return int(p.bitsPerKey)
}

// Name returns "leveldb.BuiltinBloomFilter2", or "sievedb.CacheLineBloom" for a policy
// that makes cache-line filters or both kinds.
func (p BloomPolicy) Name() string {
	if p.layout == levelDBLayout {
		return bloomName
	}
	return cacheLineName
}

// CreateFilter implements Policy. It allocates only if dst has too little capacity.
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

// KeyMayMatch implements Policy. It suits single queries; for repeated queries of the
// same filter, use NewProbe. It allocates nothing.
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
	if verdict != testBits {
		return verdict == alwaysMatch
	}
	return plainMayMatch(bits, k, uint32(hash))
}

// KeyHash implements HashPolicy. LevelDB's hash has 32 bits, the hash of cache-line filters has 64.
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
		if verdict != testBits {
			return fixedProbe(true)
		}
		return &probe
	}
	bits, k, verdict := parseBloom(filter)
	if verdict != testBits {
		return fixedProbe(verdict == alwaysMatch)
	}
	probe := makeBloomProbe(bits, k)
	return &probe
}

// Understands implements VersionedPolicy. LevelDB's encoding has no versions, so any
// bytes are read as LevelDB reads them.
func (p BloomPolicy) Understands(filter []byte) bool {
	if p.layout == levelDBLayout {
		return true
	}
	_, verdict := parseCacheLine(filter)
	return verdict == testBits
}

// NewGenerator implements GeneratorPolicy. The generator keeps four bytes per key for
// LevelDB's layout and eight for cache lines.
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

// appendDoubling appends one to kept, and doubles the capacity when it is full. append grows large slices by a quarter:
// it would copy each hash of a table about five times and leave as much garbage.
func appendDoubling[T any](kept []T, one T) []T {
	if len(kept) == cap(kept) {
		kept = slices.Grow(kept, max(len(kept), 512))
	}
	return append(kept, one)
}

func bloomHash(key []byte) uint32 { return util.Hash(key, bloomSeed) }

// appendBloom appends to dst the filter of the keys with these hashes.
func appendBloom(dst []byte, hashes []uint32, bitsPerKey int) []byte {
	dst, filter := appendEmptyBloom(dst, len(hashes), bitsPerKey)
	w := newBloomWriter(filter)
	for _, h := range hashes {
		w.set(h)
	}
	return dst
}

// appendEmptyBloom appends to dst a filter for the given number of keys with all bits
// clear. It returns the extended dst and the filter within it.
func appendEmptyBloom(dst []byte, keys, bitsPerKey int) (extended, filter []byte) {
	bytes, k := bloomShape(uint64(keys), bitsPerKey)
	start, size := len(dst), int(bytes)+1
	dst = slices.Grow(dst, size)[:start+size]
	filter = dst[start:]
	clear(filter) // spare capacity holds whatever was there before
	filter[size-1] = byte(k)
	return dst, filter
}

// bloomVerdict says what a filter's form reveals before any bit is tested.
type bloomVerdict uint8

const (
	neverMatch bloomVerdict = iota
	alwaysMatch
	testBits
)

// parseBloom splits a filter into its bit array, of 1 to maxBloomBytes bytes, and k,
// within 1..maxBloomHashes, if the verdict is testBits.
func parseBloom(filter []byte) (bits []byte, k int, verdict bloomVerdict) {
	n := len(filter) - 1
	if n < 1 {
		return nil, 0, neverMatch
	}
	k = int(filter[n])
	if k == 0 || k > maxBloomHashes || n > maxBloomBytes {
		return nil, 0, alwaysMatch
	}
	return filter[:n], k, testBits
}
