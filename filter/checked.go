package filter

// A CheckedGenerator is a Generator that queries the finished filter for every key that was added. A filter that denies
// one of them would hide that key permanently and silently. The check detects a defect or a flipped bit in memory while
// the table is written, when it costs an error and not a key.
type CheckedGenerator interface {
	Generator

	// AppendChecked does what AppendFilter does, and returns how many of the added keys
	// the finished filter denies: 0 unless there is a defect.
	AppendChecked(dst []byte) (extended []byte, denied int)
}

var _ CheckedGenerator = (*bloomGenerator)(nil)

// AppendChecked implements CheckedGenerator. It reads the filter from its bytes, with the code that lookups use.
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
