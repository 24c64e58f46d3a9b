package manifest

import (
	"bytes"
	"encoding/binary"

	"github.com/sievedb/sievedb/internal/base"
)

// In a store whose values expire, each edit records the time. LevelDB and goleveldb must be able to
// read the MANIFEST and should keep the time, so it is a compact pointer of the last level: a
// compaction from there has nowhere to go, so LevelDB copies the pointer and does not use it. (When
// goleveldb adds an eighth level, it begins with a table after this key, which is as good as any.)
// The comparer of another order might not accept the key. With one, the time is not recorded.

// clockPrefix begins the user key of the pointer. Eight bytes follow, little-endian. It reaches the
// disk and never changes.
const clockPrefix = "sievedb.time\x00"

// clockPointer returns the pointer that records a time, in milliseconds since 1970.
func clockPointer(time uint64) CompactPointer {
	user := binary.LittleEndian.AppendUint64([]byte(clockPrefix), time)
	return CompactPointer{Level: NumLevels - 1, Key: base.AppendInternalKey(nil, user, 0, base.KindDelete)}
}

// clockOf returns the time that a pointer records, 0 if it is another pointer.
func clockOf(level int, key []byte) uint64 {
	user := base.UserKey(key)
	if level != NumLevels-1 || len(user) != len(clockPrefix)+8 || !bytes.HasPrefix(user, []byte(clockPrefix)) {
		return 0
	}
	return binary.LittleEndian.Uint64(user[len(clockPrefix):])
}

// noteTime makes the present time the one to record. A store in which nothing expires keeps the time
// of an earlier one.
func (s *Set) noteTime() {
	if s.opts.Clock != nil && s.opts.Cmp.IsBytewise() {
		s.time = max(s.time, s.opts.Clock())
	}
}

// recordTime adds the present time to edit.
func (s *Set) recordTime(edit *Edit) {
	s.noteTime()
	if s.time > 0 {
		edit.CompactPointers = append(edit.CompactPointers, clockPointer(s.time))
	}
}
