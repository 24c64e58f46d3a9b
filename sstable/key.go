package sstable

import "github.com/sievedb/sievedb/internal/base"

// Key is a decoded internal key. Keys of a table are in ascending order of User, then in descending order of Seq.
type Key struct {
	User     []byte
	Seq      uint64 // the sequence number, below 2^56; a larger one is newer
	Deletion bool   // the entry deletes the key and has no value
	// Separated says that the value is in a value table, and the entry has where; see docs/format.md.
	Separated bool
}

// Append appends the internal key to dst, in the form that Writer.Add expects (LevelDB's db/dbformat.h).
func (k Key) Append(dst []byte) []byte {
	kind := base.KindSet
	switch {
	case k.Deletion:
		kind = base.KindDelete
	case k.Separated:
		kind = base.KindRef
	}
	return base.AppendInternalKey(dst, k.User, k.Seq, kind)
}

// ParseKey decodes an internal key, such as Iter.Key returns. User is a part of ikey. ok is
// false if ikey is not an internal key.
func ParseKey(ikey []byte) (k Key, ok bool) {
	if !base.ValidInternalKey(ikey) {
		return Key{}, false
	}
	seq, kind := base.SplitTrailer(base.Trailer(ikey))
	return Key{User: base.UserKey(ikey), Seq: seq, Deletion: kind == base.KindDelete, Separated: kind == base.KindRef}, true
}
