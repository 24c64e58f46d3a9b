package base

import "encoding/binary"

// Kind says what an internal key records. The values reach the disk and never
// change. (LevelDB calls it the value type.)
type Kind uint8

const (
	// KindDelete is a tombstone: the key was deleted at this sequence.
	KindDelete Kind = 0
	// KindSet carries a value.
	KindSet Kind = 1
	// KindSeek is the kind to seek with: the greatest one, because trailers
	// descend, so that a seek to (key, seq, KindSeek) lands on the first entry
	// of key whose sequence is at most seq.
	KindSeek = KindSet
)

const (
	// TrailerLen is the length in bytes of an internal key's trailer.
	TrailerLen = 8
	// MaxSeq is the largest sequence number that fits a trailer beside its kind.
	MaxSeq = uint64(1)<<56 - 1
	// LoadAhead is how far ahead of the last sequence number given out a load sets one aside:
	// that many writes may come while it is under way.
	LoadAhead = uint64(1) << 32
)

// MakeTrailer packs a sequence number and a kind as they stand in a trailer.
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

// UserKey returns the user key within ikey, without copying. ikey must be an
// internal key that was checked with ValidInternalKey, or one of our making.
func UserKey(ikey []byte) []byte {
	n := len(ikey) - TrailerLen
	return ikey[:n:n]
}

// Trailer returns the trailer of ikey, under the same condition as UserKey.
func Trailer(ikey []byte) uint64 {
	return binary.LittleEndian.Uint64(ikey[len(ikey)-TrailerLen:])
}

// ValidInternalKey reports whether ikey, read from a file, is long enough to
// hold a trailer and its kind is one that we know.
func ValidInternalKey(ikey []byte) bool {
	return len(ikey) >= TrailerLen && Kind(ikey[len(ikey)-TrailerLen]) <= KindSet
}
