package sievedb

import "bytes"

// Comparer defines the order of user keys. Its functions must be pure, total
// and safe for concurrent use; the database's files depend on them for ever.
type Comparer struct {
	// Name identifies the order and is stored in every MANIFEST; a database opens only under the name that it was
	// created with. At most 1 KiB. It must not begin with "sievedb.LogDir:".
	Name string

	// Compare returns a negative number, zero or a positive number as a sorts before, with or after b.
	Compare func(a, b []byte) int

	// Separator appends to dst a key k with a <= k < b, given a < b, as short as
	// it can. It makes index blocks small. Nil appends a itself.
	Separator func(dst, a, b []byte) []byte

	// Successor appends to dst a key k with k >= a, as short as it can. Nil appends a itself.
	Successor func(dst, a []byte) []byte

	// InexactEqual says that Compare can return zero for keys whose bytes differ (it ignores trailing spaces or letter
	// case, for example). A filter that hashes a key's bytes would then deny stored keys, so such a comparer needs a
	// filter policy of its own, or filter.None; the built-in policies are refused when the database is opened.
	InexactEqual bool
}

// Bytewise orders keys as bytes.Compare does. It is LevelDB's default
// comparator, under LevelDB's name, and shortens keys as LevelDB's does.
var Bytewise = &Comparer{
	Name:      "leveldb.BytewiseComparator",
	Compare:   bytes.Compare,
	Separator: bytewiseSeparator,
	Successor: bytewiseSuccessor,
}

// bytewiseSeparator cuts a after the first byte that differs from b and adds one to that byte, if the result still
// sorts before b. It is LevelDB's BytewiseComparatorImpl::FindShortestSeparator (util/comparator.cc).
func bytewiseSeparator(dst, a, b []byte) []byte {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	if n < len(a) && n < len(b) && a[n] < 0xff && a[n]+1 < b[n] {
		dst = append(dst, a[:n+1]...)
		dst[len(dst)-1]++
		return dst
	}
	return append(dst, a...)
}

// bytewiseSuccessor adds one to the first byte that is not 0xff and cuts there.
func bytewiseSuccessor(dst, a []byte) []byte {
	for i, c := range a {
		if c != 0xff {
			dst = append(dst, a[:i+1]...)
			dst[len(dst)-1]++
			return dst
		}
	}
	return append(dst, a...)
}

// IsBytewise reports whether c orders keys as plain bytes, so that hot paths may compare prefixes as integers. It asks
// for identity, not for the name: a user's comparer may claim LevelDB's name and order differently.
func (c *Comparer) IsBytewise() bool { return c == Bytewise }
