package base

import (
	"math/bits"

	"github.com/sievedb/sievedb"
	"github.com/sievedb/sievedb/util"
)

// Comparer is sievedb.Comparer. Internal keys are ordered by the functions below.
type Comparer = sievedb.Comparer

// Bytewise is the default comparer.
var Bytewise = sievedb.Bytewise

// SharedPrefixLen returns the length in bytes of the longest common prefix of a and b.
func SharedPrefixLen(a, b []byte) int {
	n := min(len(a), len(b))
	a, b = a[:n], b[:n]
	i := 0
	for ; i+8 <= n; i += 8 {
		if differ := util.Fixed64(a[i:]) ^ util.Fixed64(b[i:]); differ != 0 {
			return i + bits.TrailingZeros64(differ)/8
		}
	}
	for i < n && a[i] == b[i] {
		i++
	}
	return i
}

// CompareInternal orders internal keys by user key ascending, in the order of c, and then by
// trailer descending. Both keys must satisfy ValidInternalKey.
func CompareInternal(c *Comparer, a, b []byte) int {
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

// SameVersion reports whether two internal keys have the same user key and sequence number, whatever their kinds. No
// correct program writes two such entries: lookups and iterators find only the first, which sets the key.
func SameVersion(c *Comparer, a, b []byte) bool {
	return Trailer(a)>>8 == Trailer(b)>>8 && c.Compare(UserKey(a), UserKey(b)) == 0
}

// InternalSeparator appends to dst an internal key k with a <= k < b, given a < b. A shortened
// user key gets the largest trailer, so that it sorts before every real entry of that user key.
// It corresponds to LevelDB's InternalKeyComparator::FindShortestSeparator (db/dbformat.cc).
func InternalSeparator(c *Comparer, dst, a, b []byte) []byte {
	if c.Separator == nil || c.Compare(UserKey(a), UserKey(b)) == 0 {
		return append(dst, a...)
	}
	n := len(dst)
	dst = c.Separator(dst, UserKey(a), UserKey(b))
	return finishShortened(c, dst, n, a)
}

// InternalSuccessor appends to dst an internal key k with k >= a.
func InternalSuccessor(c *Comparer, dst, a []byte) []byte {
	if c.Successor == nil {
		return append(dst, a...)
	}
	n := len(dst)
	dst = c.Successor(dst, UserKey(a))
	return finishShortened(c, dst, n, a)
}

// finishShortened makes an internal key of the candidate user key dst[n:], which was derived from the internal key a.
// If the candidate is not shorter, it returns a. It also returns a if the candidate is not greater than a's user key:
// with the largest trailer it would sort before a.
func finishShortened(c *Comparer, dst []byte, n int, a []byte) []byte {
	if cand := dst[n:]; len(cand) < len(a)-TrailerLen && c.Compare(UserKey(a), cand) < 0 {
		return AppendInternalKey(dst[:n], dst[n:], MaxSeq, KindSeparator)
	}
	return append(dst[:n], a...)
}
