package filter

import (
	"encoding/binary"
	"math/bits"
	"slices"

	"github.com/sievedb/sievedb/util"
)

// The bytes of a cache-line filter
//
// A filter of NewCacheLineBloomPolicy, "sievedb.CacheLineBloom", has all bits of a key in one line of 512 bits. That is
// one cache line if the filter is loaded at a multiple of 64 bytes, so a lookup waits for memory once. Its hash has 64
// bits, so that keys with equal hashes do not matter, and it spreads counters as well as random keys.
//
//	+----------+----------+-----+----------+-----+---------+
//	|  line 0  |  line 1  |  …  | line L-1 |  k  | version |
//	+----------+----------+-----+----------+-----+---------+
//
//	offset  size  meaning
//	------  ----  -----------------------------------------------------------
//	0       64 L  the lines; bit i of a line is bit i mod 8, counted from the
//	              lowest, of its byte i/8. L = keys × bits per key / 512, rounded
//	              up, at least 1, and below 2^25
//	64 L    1     k, how many bits each key sets: see CacheLineHashes
//	64 L+1  1     1, the version of this layout
//
// A reader derives L from the length. It answers "perhaps" for every key if it does not
// know the form: another length, a k of 0 or above 30, or another version.
//
//	h     = XXH3-64 of the key, seed 0 (util.XXH3)
//	line  = h × L / 2^64, rounded down: the upper half of the 128-bit product
//	pair 1, 2, … of k/2:  h = h × 0x9e3779b97f4a7c15 (modulo 2^64)
//	        bits h / 2^55 and (h / 2^46) mod 512 of the line
//	an odd k uses the first bit of one more pair
//
// By hand: the keys "hello" and "world" at 10 bits per key have one line, and k = 6.
//
//	key    h                   h × 0x9e37…, pair 1  bits
//	-----  ------------------  -------------------  -----------------------
//	hello  0x9555e8555c62dcfd  0x7c576fcadb48acc1   248 349 282 391 429 353
//	world  0xd6476c25083d69be  0xc536e08b3f2db496   394 219 194 480 438 390
//
//	bits    194 219 248 282 349 353 390,391 394 429 438 480  k   version
//	byte     24  27  31  35  43  44      48  49  53  54  60  64  65
//	value    04  08  01  04  20  02      c0  04  20  40  01  06  01

// These reach the disk and never change.
const (
	cacheLineName    = "sievedb.CacheLineBloom"
	cacheLineVersion = 1
	lineBytes        = 64
	lineBits         = lineBytes * 8
	lineTailBytes    = 2 // k and the version
	maxLineHashes    = 30
	// lineMix is 2^64 divided by the golden ratio. Multiplying by it moves the hash bits
	// that chose the line into the bits that choose the positions within the line.
	lineMix = 0x9e3779b97f4a7c15
)

// maxLines keeps a filter below two gigabytes, the limit of a slice on 32-bit machines:
// 1.7 billion keys at 10 bits.
const maxLines = 1<<25 - 1

func cacheLineHash(key []byte) uint64 { return util.XXH3(key) }

// lineOf returns the line of a hash. The upper half of hash × lines spreads the hashes
// evenly without a division (Lemire 2016).
func lineOf(array []byte, hash, lines uint64) *[lineBytes]byte {
	i, _ := bits.Mul64(hash, lines)
	return (*[lineBytes]byte)(array[i*lineBytes:])
}

// lineWord returns word i mod 8 of the line. Bit j of the word is bit 64i+j of the line,
// whatever the machine's byte order.
func lineWord(line *[lineBytes]byte, i uint64) uint64 {
	return binary.LittleEndian.Uint64(line[i%8*8:])
}

// CacheLineProbe is the Probe of a well-formed cache-line filter. Callers that keep the
// filters of many tables can store it by value and call it without an interface; see
// AsCacheLineProbe. The zero CacheLineProbe must not be queried.
type CacheLineProbe struct {
	array []byte // whole lines, at least one
	lines uint64
	k     int // 1 to maxLineHashes
}

// AsCacheLineProbe returns the CacheLineProbe that p points to; ok is false if p is the
// probe of another kind of filter.
func AsCacheLineProbe(p Probe) (probe CacheLineProbe, ok bool) {
	if p, ok := p.(*CacheLineProbe); ok {
		return *p, true
	}
	return probe, false
}

// HashMayMatch implements Probe. It tests bits in pairs, for the same reason as bloomProbe. All bits of a key are in
// one cache line, so the first pair loads the others too. (Absent keys, filters of 16 and 128 MB: 43 and 70 ns with a
// branch for each pair, 45 and 70 for each bit, 46 and 77 for three, 54 and 90 without one. Two words of the line with
// three bits in each, or three with two, have too many false positives: 1.11 and 1.02 % at 10 bits per key, against
// 0.97.)
func (p *CacheLineProbe) HashMayMatch(hash uint64) bool {
	line := lineOf(p.array, hash, p.lines)
	h := hash * lineMix
	k := p.k
	for ; k >= 2; k -= 2 {
		a, b := lineWord(line, h>>61)>>(h>>55%64), lineWord(line, h>>52)>>(h>>46%64)
		if a&b&1 == 0 {
			return false
		}
		h *= lineMix
	}
	return k == 0 || lineWord(line, h>>61)>>(h>>55%64)&1 != 0
}

// cacheLineWriter sets bits in a filter made by appendEmptyCacheLine.
type cacheLineWriter CacheLineProbe

func (w *cacheLineWriter) set(hash uint64) {
	line := lineOf(w.array, hash, w.lines)
	h := hash * lineMix
	for k := w.k; k > 0; k -= 2 {
		line[h>>58] |= 1 << (h >> 55 % 8)
		if k > 1 {
			line[h>>49%64] |= 1 << (h >> 46 % 8)
		}
		h *= lineMix
	}
}

// parseCacheLine splits a filter; the probe is set if the verdict is testBits. For bytes
// that no writer of this version makes, the verdict is alwaysMatch.
func parseCacheLine(filter []byte) (p CacheLineProbe, verdict bloomVerdict) {
	n := len(filter) - lineTailBytes
	if n < lineBytes || n%lineBytes != 0 || filter[n+1] != cacheLineVersion {
		return p, alwaysMatch
	}
	k := int(filter[n])
	if k == 0 || k > maxLineHashes {
		return p, alwaysMatch
	}
	return CacheLineProbe{array: filter[:n], lines: uint64(n / lineBytes), k: k}, testBits
}

// appendEmptyCacheLine appends to dst a filter for the given number of keys with all bits
// clear, and returns a writer for it.
func appendEmptyCacheLine(dst []byte, keys, bitsPerKey int) ([]byte, cacheLineWriter) {
	lines, k := cacheLineShape(uint64(keys), bitsPerKey)
	start, size := len(dst), int(lines)*lineBytes+lineTailBytes
	dst = slices.Grow(dst, size)[:start+size]
	filter := dst[start:]
	clear(filter) // spare capacity holds whatever was there before
	filter[size-2], filter[size-1] = byte(k), cacheLineVersion
	return dst, cacheLineWriter{array: filter[:size-lineTailBytes], lines: lines, k: k}
}

func appendCacheLine(dst []byte, keys [][]byte, bitsPerKey int) []byte {
	dst, w := appendEmptyCacheLine(dst, len(keys), bitsPerKey)
	for _, key := range keys {
		w.set(cacheLineHash(key))
	}
	return dst
}

// cacheLineGenerator keeps eight bytes per key.
type cacheLineGenerator struct {
	bitsPerKey int
	hashes     []uint64
}

// Package rangefilter also requires Reset, which is in no public interface.
var _ interface {
	CheckedGenerator
	Reset()
} = (*cacheLineGenerator)(nil)

func (g *cacheLineGenerator) Add(key []byte) { g.hashes = appendDoubling(g.hashes, cacheLineHash(key)) }
func (g *cacheLineGenerator) Len() int       { return len(g.hashes) }

// Reset forgets the keys. The generator keeps its memory.
func (g *cacheLineGenerator) Reset() { g.hashes = g.hashes[:0] }

func (g *cacheLineGenerator) AppendFilter(dst []byte) []byte {
	dst, w := appendEmptyCacheLine(dst, len(g.hashes), g.bitsPerKey)
	for _, h := range g.hashes {
		w.set(h)
	}
	g.hashes = g.hashes[:0]
	return dst
}

// AppendChecked implements CheckedGenerator. It reads the filter from its bytes, with the code that lookups use.
func (g *cacheLineGenerator) AppendChecked(dst []byte) (extended []byte, denied int) {
	start, hashes := len(dst), g.hashes
	dst = g.AppendFilter(dst)
	return dst, countDeniedByLines(dst[start:], hashes)
}

// countDeniedByLines returns how many of the hashes a cache-line filter denies.
func countDeniedByLines(filter []byte, hashes []uint64) (denied int) {
	probe, verdict := parseCacheLine(filter)
	if verdict != testBits {
		return 0
	}
	for _, h := range hashes {
		if !probe.HashMayMatch(h) {
			denied++
		}
	}
	return denied
}
