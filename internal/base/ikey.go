package base

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Kind is the kind of an internal key's entry. The values reach the disk and never change.
// (LevelDB calls it the value type.)
type Kind uint8

const (
	// KindDelete is a tombstone: the key was deleted at this sequence number.
	KindDelete Kind = 0
	// KindSet is an entry with a value.
	KindSet Kind = 1
	// KindRef is an entry of a table whose value is in a value table; see ValueRef. LevelDB has no such entry.
	KindRef Kind = 2
	// maxNewerKind is the last of the kinds that later versions may use for entries, after KindRef.
	maxNewerKind Kind = 31
	// KindSeek is the kind to seek with. It is the greatest one, because trailers are in descending order, so that a
	// seek to (key, seq, KindSeek) finds the first entry of key whose sequence number is at most seq.
	KindSeek = KindRef
	// KindSeparator is the kind of shortened separators in an index, LevelDB's kind to seek with.
	KindSeparator = KindSet
)

const (
	// TrailerLen is the length in bytes of an internal key's trailer.
	TrailerLen = 8
	// MaxSeq is the largest sequence number that fits in a trailer with its kind.
	MaxSeq = uint64(1)<<56 - 1
	// FirstOwnSeq numbers a transaction's first write within the transaction. It is above the number of
	// every committed write.
	FirstOwnSeq = MaxSeq - math.MaxInt32
	// LoadAhead is the distance between the last assigned sequence number and the one that a
	// load reserves: the number of writes that can happen during the load.
	LoadAhead = uint64(1) << 32
)

// MakeTrailer packs a sequence number and a kind into a trailer.
func MakeTrailer(seq uint64, kind Kind) uint64 { return seq<<8 | uint64(kind) }

// SplitTrailer is the inverse of MakeTrailer.
func SplitTrailer(trailer uint64) (seq uint64, kind Kind) {
	return trailer >> 8, Kind(trailer & 0xff)
}

// AppendInternalKey appends the internal key of userKey, seq and kind to dst.
func AppendInternalKey(dst, userKey []byte, seq uint64, kind Kind) []byte {
	dst = append(dst, userKey...)
	return binary.LittleEndian.AppendUint64(dst, MakeTrailer(seq, kind))
}

// UserKey returns the user key within ikey, without copying. ikey must have been checked with
// ValidInternalKey, unless this package made it.
func UserKey(ikey []byte) []byte {
	n := len(ikey) - TrailerLen
	return ikey[:n:n]
}

// Trailer returns the trailer of ikey, for which the condition of UserKey holds.
func Trailer(ikey []byte) uint64 {
	return binary.LittleEndian.Uint64(ikey[len(ikey)-TrailerLen:])
}

// ValidInternalKey reports whether ikey, which was read from a file, has a trailer with a known kind.
func ValidInternalKey(ikey []byte) bool {
	return len(ikey) >= TrailerLen && Kind(ikey[len(ikey)-TrailerLen]) <= KindRef
}

// IsNewerKind reports whether k is a kind that only later versions may use for entries.
func IsNewerKind(k Kind) bool { return k > KindRef && k <= maxNewerKind }

// HasNewerKind reports whether ikey, for which ValidInternalKey is false, has such a kind.
func HasNewerKind(ikey []byte) bool {
	return len(ikey) >= TrailerLen && IsNewerKind(Kind(ikey[len(ikey)-TrailerLen]))
}

// DescribeKey describes an internal key for an error text. It reveals no byte of the user key, and
// no checksum, from which a short key could be found.
func DescribeKey(ikey []byte) string {
	if len(ikey) < TrailerLen {
		return "none"
	}
	return fmt.Sprintf("of %d bytes with trailer %#x", len(ikey), Trailer(ikey))
}
