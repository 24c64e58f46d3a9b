package sstable

import "github.com/sievedb/sievedb/internal/base"

// Key is an internal key, decoded: what a table orders. Keys ascend by User under the
// comparer, then descend by Seq.
type Key struct {
	User []byte
	// Seq is the sequence number, below 2^56: of two entries of one user key, the one with the
	// larger number is the newer.
	Seq uint64
	// Deletion says that the entry deletes the key. It has no value.
	Deletion bool
}

// Append appends the internal key to dst, as Writer.Add takes it (LevelDB's db/dbformat.h).
func (k Key) Append(dst []byte) []byte {
	kind := base.KindSet
	if k.Deletion {
		kind = base.KindDelete
	}
	return base.AppendInternalKey(dst, k.User, k.Seq, kind)
}

// ParseKey decodes an internal key, such as Iter.Key returns. User is a part of ikey. ok is
// false if ikey is none.
func ParseKey(ikey []byte) (k Key, ok bool) {
	if !base.ValidInternalKey(ikey) {
		return Key{}, false
	}
	seq, kind := base.SplitTrailer(base.Trailer(ikey))
	return Key{User: base.UserKey(ikey), Seq: seq, Deletion: kind == base.KindDelete}, true
}
