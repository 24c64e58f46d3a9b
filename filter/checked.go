package filter

// A CheckedGenerator is a Generator that asks the filter that it made for every
// key that went in. A filter that denies one loses it, for good and without a
// word, so whoever writes a table finds out before the table counts: a defect,
// or memory that changed a bit, costs an error then and not a key.
type CheckedGenerator interface {
	Generator

	// AppendChecked is AppendFilter, and returns how many of the added keys the
	// finished filter denies, as a reader would find: 0 if all is well.
	AppendChecked(dst []byte) (extended []byte, denied int)
}

var _ CheckedGenerator = (*bloomGenerator)(nil)

// AppendChecked implements CheckedGenerator. It reads the filter with the code
// that lookups use, from the bytes alone.
func (g *bloomGenerator) AppendChecked(dst []byte) (extended []byte, denied int) {
	start := len(dst)
	dst = appendBloom(dst, g.hashes, g.bitsPerKey)
	denied = countDenied(dst[start:], g.hashes)
	g.hashes = g.hashes[:0]
	return dst, denied
}

// countDenied returns how many of the hashes a bloom filter denies.
func countDenied(filter []byte, hashes []uint32) (denied int) {
	array, k, verdict := parseBloom(filter)
	switch {
	case verdict == alwaysMatch:
		return 0
	case verdict == neverMatch:
		return len(hashes)
	}
	probe := makeBloomProbe(array, k)
	for _, h := range hashes {
		if !probe.HashMayMatch(uint64(h)) {
			denied++
		}
	}
	return denied
}
