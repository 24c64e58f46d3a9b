package filter

import (
	"slices"

	"github.com/sievedb/sievedb/internal/base/fuse"
)

// fuseGenerator keeps the hashes of the keys, and the memory for solving.
type fuseGenerator struct {
	slotBits int
	hashes   []uint64
	solver   fuse.Solver
}

var _ CheckedGenerator = (*fuseGenerator)(nil)

func (g *fuseGenerator) Add(key []byte) { g.hashes = appendDoubling(g.hashes, cacheLineHash(key)) }
func (g *fuseGenerator) Len() int       { return len(g.hashes) }

func (g *fuseGenerator) AppendFilter(dst []byte) []byte {
	dst, _ = g.appendFilter(dst, fuse.Tries)
	return dst
}

// AppendChecked implements CheckedGenerator. It reads the filter from its bytes, with the code that lookups use.
func (g *fuseGenerator) AppendChecked(dst []byte) (extended []byte, denied int) {
	start := len(dst)
	dst, distinct := g.appendFilter(dst, fuse.Tries)
	return dst, countDeniedByFuse(dst[start:], distinct)
}

// countDeniedByFuse returns how many of the hashes a binary fuse filter denies.
func countDeniedByFuse(filter []byte, hashes []uint64) (denied int) {
	if probe, ok := parseFuse(filter); ok {
		for _, h := range hashes {
			if !probe.HashMayMatch(h) {
				denied++
			}
		}
	}
	if probe, ok := parsePackedFuse(filter); ok {
		for _, h := range hashes {
			if !probe.HashMayMatch(h) {
				denied++
			}
		}
	}
	return denied
}

// appendFilter appends to dst the filter of the added keys, forgets them, and returns their distinct hashes, which are
// valid until the next Add. After the given number of tries it gives up and appends the filter that rules nothing out.
func (g *fuseGenerator) appendFilter(dst []byte, tries int) (extended []byte, distinct []uint64) {
	hashes := g.hashes
	g.hashes = g.hashes[:0]
	if g.slotBits != defaultFuseBits {
		width := uint(g.slotBits)
		dst, distinct, ok := g.solver.AppendPacked(dst, hashes, width, tries, fuse.Fingerprints)
		if !ok {
			dst = append(dst, 0, 0, uint8(width))
		}
		return append(dst, fusePackedVersion), distinct
	}
	if len(hashes) > fuse.MaxKeys {
		return append(dst, 0, 0, fuseVersion), hashes
	}
	shape, number, distinct, ok := g.solver.Try(hashes, tries, fuse.ShapeFor)
	if !ok {
		return append(dst, 0, 0, fuseVersion), distinct
	}
	start, n := len(dst), int(shape.Slots())
	dst = slices.Grow(dst, n+fuseTailBytes)[:start+n]
	slots := dst[start:]
	clear(slots)
	order, keyOf := g.solver.Order()
	for _, at := range slices.Backward(order) {
		mixed := keyOf[at]
		a, b, c, d := shape.Places(mixed)
		slots[at] = fingerprint(mixed) ^ slots[a] ^ slots[b] ^ slots[c] ^ slots[d] // slots[at] is 0
	}
	return append(dst, number, uint8(shape.Lg), fuseVersion), distinct
}
