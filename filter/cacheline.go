package filter

import (
	"encoding/binary"
	"math/bits"
	"slices"

	"github.com/sievedb/sievedb/util"
)

// These reach the disk and never change.
const (
	cacheLineName    = "sievedb.CacheLineBloom"
	cacheLineVersion = 1
	lineBytes        = 64
	lineBits         = lineBytes * 8
	lineTailBytes    = 2 // k and the version
	maxLineHashes    = 30
	// lineMix is 2^64 divided by the golden ratio. Products with it take the bits
	// that chose the line into those that choose the places within the line.
	lineMix = 0x9e3779b97f4a7c15
)

// maxLines keeps a filter below two gigabytes, what a slice has on machines of
// 32 bits: 1.7 thousand million keys at ten bits.
const maxLines = 1<<25 - 1

func cacheLineHash(key []byte) uint64 { return util.XXH3(key) }

// lineOf returns the line that a hash belongs to: the upper half of hash × lines
// spreads the hashes evenly without a division (Lemire 2016).
func lineOf(array []byte, hash, lines uint64) *[lineBytes]byte {
	i, _ := bits.Mul64(hash, lines)
	return (*[lineBytes]byte)(array[i*lineBytes:])
}

// lineWord returns word i mod 8 of the line. Bit j of it is bit 64i+j of the line
// on machines of either byte order.
func lineWord(line *[lineBytes]byte, i uint64) uint64 {
	return binary.LittleEndian.Uint64(line[i%8*8:])
}

// CacheLineProbe is the Probe of a well-formed cache-line filter. Who keeps the
// filters of many tables keeps this by value and asks it directly: see
// AsCacheLineProbe. The zero CacheLineProbe must not be asked.
type CacheLineProbe struct {
	array []byte // whole lines, one at least
	lines uint64
	k     int // 1 to maxLineHashes
}

// AsCacheLineProbe returns what p points to if it is the probe of a cache-line
// filter.
func AsCacheLineProbe(p Probe) (probe CacheLineProbe, ok bool) {
	if p, ok := p.(*CacheLineProbe); ok {
		return *p, true
	}
	return probe, false
}

// HashMayMatch implements Probe. It tests bits in pairs, as bloomProbe does and for the same reason.
// All of them are in one cache line, so the first pair brings the others along.
// (Absent keys, filters of 16 and 128 MB: 43 and 70 ns with a branch for each
// pair, 45 and 70 for each bit, 46 and 77 for three, 54 and 90 without one. Two
// words of the line with three bits in each, or three with two, err too often:
// 1.11 and 1.02 % at ten bits a key, against 0.97.)
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

// cacheLineWriter sets bits in a filter that appendEmptyCacheLine made.
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

// parseCacheLine takes a filter apart; the probe is set when the verdict is
// askBits. What no writer of this version makes may match.
func parseCacheLine(filter []byte) (p CacheLineProbe, verdict bloomVerdict) {
	n := len(filter) - lineTailBytes
	if n < lineBytes || n%lineBytes != 0 || filter[n+1] != cacheLineVersion {
		return p, alwaysMatch
	}
	k := int(filter[n])
	if k == 0 || k > maxLineHashes {
		return p, alwaysMatch
	}
	return CacheLineProbe{array: filter[:n], lines: uint64(n / lineBytes), k: k}, askBits
}

// appendEmptyCacheLine appends to dst a filter for the given number of keys with
// no bit set, and returns a writer of it.
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

// cacheLineGenerator keeps eight bytes a key.
type cacheLineGenerator struct {
	bitsPerKey int
	hashes     []uint64
}

// Package rangefilter requires Reset as well, which no public interface has.
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

// AppendChecked implements CheckedGenerator. It reads the filter with the code
// that lookups use, from the bytes alone.
func (g *cacheLineGenerator) AppendChecked(dst []byte) (extended []byte, denied int) {
	start, hashes := len(dst), g.hashes
	dst = g.AppendFilter(dst)
	return dst, countDeniedByLines(dst[start:], hashes)
}

// countDeniedByLines returns how many of the hashes a cache-line filter denies.
func countDeniedByLines(filter []byte, hashes []uint64) (denied int) {
	probe, verdict := parseCacheLine(filter)
	if verdict != askBits {
		return 0
	}
	for _, h := range hashes {
		if !probe.HashMayMatch(h) {
			denied++
		}
	}
	return denied
}
