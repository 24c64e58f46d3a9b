package sstable

import "github.com/sievedb/sievedb/internal/base"

// Key is an internal key, decoded. Keys of a table ascend by User, then descend by Seq.
type Key struct {
	User     []byte
	Seq      uint64 // the sequence number, below 2^56; a larger one is newer
	Deletion bool   // the entry deletes the key and has no value
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
