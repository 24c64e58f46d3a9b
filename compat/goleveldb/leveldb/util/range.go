package util

import "slices"

// Range is the keys from Start, included, to Limit, excluded. Nil means no bound.
type Range struct {
	Start []byte
	Limit []byte
}

// BytesPrefix returns the range of the keys that begin with prefix, in the order of bytes.Compare.
func BytesPrefix(prefix []byte) *Range {
	r := &Range{Start: prefix}
	for n := len(prefix); n > 0; n-- {
		if prefix[n-1] != 0xff {
			r.Limit = slices.Clone(prefix[:n])
			r.Limit[n-1]++
			break
		}
	}
	return r
}
