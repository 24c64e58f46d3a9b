package base

import "bytes"

// Comparer defines the order of user keys. Its functions must be pure, total
// and safe for concurrent use; the database's files depend on them for ever.
type Comparer struct {
	// Name identifies the order and is stored in every MANIFEST; a database
	// opens only under the name that it was created with. At most 1 KiB.
	Name string

	// Compare returns a negative number, zero or a positive number as a sorts
	// before, with or after b.
	Compare func(a, b []byte) int

	// Separator appends to dst a key k with a <= k < b, given a < b, as short as
	// it can. It makes index blocks small. Nil appends a itself.
	Separator func(dst, a, b []byte) []byte

	// Successor appends to dst a key k with k >= a, as short as it can. Nil
	// appends a itself.
	Successor func(dst, a []byte) []byte

	// InexactEqual says that Compare can return zero for keys whose bytes differ
	// (it ignores trailing spaces or letter case, for example). A filter that
	// hashes a key's bytes would then deny stored keys, so such a comparer needs
	// a filter policy of its own, or filter.None; the built-in policies are
	// refused when the database is opened.
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

// bytewiseSeparator cuts a behind the first byte that differs from b and adds
// one to that byte, where the result still sorts before b. As LevelDB's
// BytewiseComparatorImpl::FindShortestSeparator (util/comparator.cc).
func bytewiseSeparator(dst, a, b []byte) []byte {
	n := SharedPrefixLen(a, b)
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

// SharedPrefixLen returns the length in bytes of the longest prefix that a and
// b have in common.
func SharedPrefixLen(a, b []byte) int {
	n := min(len(a), len(b))
	a, b = a[:n], b[:n]
	i := 0
	for ; i+8 <= n; i += 8 {
		if [8]byte(a[i:i+8]) != [8]byte(b[i:i+8]) {
			break
		}
	}
	for ; i < n; i++ {
		if a[i] != b[i] {
			break
		}
	}
	return i
}

// IsBytewise reports whether c orders keys as plain bytes, so that hot paths
// may compare prefixes as integers. It asks for identity, not for the name: a
// user's comparer may claim LevelDB's name and order differently.
func (c *Comparer) IsBytewise() bool { return c == Bytewise }

// CompareInternal orders internal keys: user keys ascending, then trailers
// descending. Both must satisfy ValidInternalKey.
func (c *Comparer) CompareInternal(a, b []byte) int {
	if v := c.Compare(UserKey(a), UserKey(b)); v != 0 {
		return v
	}
	switch ta, tb := Trailer(a), Trailer(b); {
	case ta > tb:
		return -1
	case ta < tb:
		return +1
	}
	return 0
}

// SameVersion reports whether two internal keys are of one user key and sequence number,
// whatever their kinds are. No sound program writes two such entries: lookups and iterators
// find only the first, which sets the key.
func (c *Comparer) SameVersion(a, b []byte) bool {
	return Trailer(a)>>8 == Trailer(b)>>8 && c.Compare(UserKey(a), UserKey(b)) == 0
}

// InternalSeparator appends to dst an internal key k with a <= k < b, given
// a < b. A shortened user key gets the largest trailer, so that it sorts before
// every real entry of that user key. As LevelDB's
// InternalKeyComparator::FindShortestSeparator (db/dbformat.cc).
func (c *Comparer) InternalSeparator(dst, a, b []byte) []byte {
	if c.Separator == nil || c.Compare(UserKey(a), UserKey(b)) == 0 {
		return append(dst, a...)
	}
	n := len(dst)
	dst = c.Separator(dst, UserKey(a), UserKey(b))
	return c.finishShortened(dst, n, a)
}

// InternalSuccessor appends to dst an internal key k with k >= a.
func (c *Comparer) InternalSuccessor(dst, a []byte) []byte {
	if c.Successor == nil {
		return append(dst, a...)
	}
	n := len(dst)
	dst = c.Successor(dst, UserKey(a))
	return c.finishShortened(dst, n, a)
}

// finishShortened turns the candidate user key dst[n:], made from the internal
// key a, into an internal key, or falls back to a where nothing was gained: a
// candidate that is not greater than a's user key must not get the largest
// trailer, or it would sort before a.
func (c *Comparer) finishShortened(dst []byte, n int, a []byte) []byte {
	if cand := dst[n:]; len(cand) < len(a)-TrailerLen && c.Compare(UserKey(a), cand) < 0 {
		return AppendInternalKey(dst[:n], dst[n:], MaxSeq, KindSeek)
	}
	return append(dst[:n], a...)
}
