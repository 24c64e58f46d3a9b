package expiry

import (
	"encoding/binary"

	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/util"
)

// The parts of an envelope. They reach the disk and never change.
const (
	tag = 0xfe
	// HeaderLen is the number of bytes before the value.
	HeaderLen = 9
	timeBits  = 48
)

const (
	// Never is the time of a value that does not expire.
	Never = 0
	// MaxTime is the latest time, in the year 10889. Later ones become it.
	MaxTime = 1<<timeBits - 1
)

// ErrNoEnvelope is the error for a value that should have an envelope.
var ErrNoEnvelope = errors.Sentinel("sievedb: the key is under Options.Expiry.Prefixes, but its value was written by another program, " +
	"or with Options.Expiry.Raw; read it with Raw, and Put or Delete the key without")

// Append appends an envelope that expires at a time, and the value.
func Append(dst []byte, at uint64, value []byte) []byte {
	return append(appendHeader(dst, at), value...)
}

func appendHeader(dst []byte, at uint64) []byte {
	from := len(dst)
	dst = append(dst, tag)
	dst = binary.LittleEndian.AppendUint64(dst, min(at, MaxTime))[:from+1+timeBits/8]
	return binary.LittleEndian.AppendUint16(dst, check(dst[from:]))
}

// check returns the check of the header's first bytes.
func check(header []byte) uint16 { return uint16(util.MaskCRC(util.CRC32C(header))) }

// Decode returns when a value with an envelope expires. The value itself begins at HeaderLen. ok
// is false if there is no envelope.
func Decode(sealed []byte) (at uint64, ok bool) {
	if len(sealed) < HeaderLen || sealed[0] != tag {
		return 0, false
	}
	const end = 1 + timeBits/8
	if binary.LittleEndian.Uint16(sealed[end:]) != check(sealed[:end]) {
		return 0, false
	}
	return binary.LittleEndian.Uint64(sealed[1:]) & MaxTime, true
}
