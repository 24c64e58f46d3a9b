package logstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"

	"github.com/sievedb/sievedb/db"
)

// The first byte of an entry, and its flags. They reach the disk and never change.
const (
	entryVersion = 1

	hasTime       = 1
	hasExtensions = 2
	hasData       = 4

	entryHeader = 11
	maxFraming  = entryHeader + 12 + 4 // with a time and the length of extensions
)

// appendEntry appends the bytes of an entry, which the package comment describes. The index is in the key.
func appendEntry(dst []byte, l *raft.Log) ([]byte, error) {
	// The database refuses longer values, but only when the writer has them, together with those of other groups.
	if size := uint64(len(l.Data)) + uint64(len(l.Extensions)); size > db.MaxValueSize-maxFraming {
		return dst, fmt.Errorf("an entry of the log has %d bytes, at most %d are supported: %w",
			size, db.MaxValueSize-maxFraming, db.ErrTooLarge)
	}
	at := len(dst)
	dst = append(dst, entryVersion, byte(l.Type), 0)
	dst = binary.BigEndian.AppendUint64(dst, l.Term)
	if !l.AppendedAt.IsZero() {
		dst[at+2] |= hasTime
		dst = binary.BigEndian.AppendUint64(dst, uint64(l.AppendedAt.Unix()))
		dst = binary.BigEndian.AppendUint32(dst, uint32(l.AppendedAt.Nanosecond()))
	}
	if l.Extensions != nil {
		dst[at+2] |= hasExtensions
		dst = binary.BigEndian.AppendUint32(dst, uint32(len(l.Extensions)))
		dst = append(dst, l.Extensions...)
	}
	if l.Data != nil {
		dst[at+2] |= hasData
		dst = append(dst, l.Data...)
	}
	return dst, nil
}

var errShortEntry = errors.New("an entry of the log is too short")

// parseEntry is the inverse of appendEntry. It sets all of l but the index. The slices of l share the memory of b.
func parseEntry(b []byte, l *raft.Log) error {
	if len(b) < entryHeader {
		return errShortEntry
	}
	if b[0] != entryVersion {
		return fmt.Errorf("an entry of the log has version %d, and version %d is supported: upgrade this node", b[0], entryVersion)
	}
	flags := b[2]
	if flags&^(hasTime|hasExtensions|hasData) != 0 {
		return fmt.Errorf("an entry of the log has unknown flags %#x", flags)
	}
	*l = raft.Log{Index: l.Index, Type: raft.LogType(b[1]), Term: binary.BigEndian.Uint64(b[3:])}
	b = b[entryHeader:]
	if flags&hasTime != 0 {
		if len(b) < 12 {
			return errShortEntry
		}
		nanos := binary.BigEndian.Uint32(b[8:])
		if nanos >= 1e9 {
			return fmt.Errorf("an entry of the log has %d nanoseconds in a second", nanos)
		}
		l.AppendedAt = time.Unix(int64(binary.BigEndian.Uint64(b)), int64(nanos)).UTC()
		if l.AppendedAt.IsZero() {
			return errors.New("an entry of the log has a flag for a time and none")
		}
		b = b[12:]
	}
	if flags&hasExtensions != 0 {
		if len(b) < 4 || uint64(len(b)-4) < uint64(binary.BigEndian.Uint32(b)) {
			return errShortEntry
		}
		end := 4 + int(binary.BigEndian.Uint32(b))
		l.Extensions, b = b[4:end:end], b[end:]
	}
	if flags&hasData != 0 {
		l.Data = b
	} else if len(b) > 0 {
		return fmt.Errorf("an entry of the log has %d bytes after its end", len(b))
	}
	return nil
}
