package standalone

import (
	"fmt"

	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/util"
)

const version = 1 // of the saved format; it reaches the disk and never changes

// ErrCorrupt is wrapped by the errors of UnmarshalBinary: the bytes are not those of a filter saved by AppendBinary.
// There is no such error for filters in tables, where a damaged filter rules nothing out.
var ErrCorrupt = errors.Sentinel("standalone: corrupt")

// corruptf returns an error that says what is wrong with a saved filter of the given kind.
func corruptf(kind, format string, args ...any) error {
	return fmt.Errorf("%w %s: %s", ErrCorrupt, kind, fmt.Sprintf(format, args...))
}

// appendChecksum appends the checksum of a saved filter, which begins at start.
func appendChecksum(dst []byte, start int) []byte {
	return util.AppendFixed32(dst, util.MaskCRC(util.CRC32C(dst[start:])))
}

// openSaved checks the kind, the version and the checksum of a saved filter and returns the bytes between them.
func openSaved(data []byte, part string, kind byte) ([]byte, error) {
	n := len(data) - 4
	if n < 2 {
		return nil, corruptf(part, "%d bytes, want at least 6", len(data))
	}
	if data[0] != kind || data[1] != version {
		return nil, corruptf(part, "found kind %#x and version %d, want %#x and %d", data[0], data[1], kind, version)
	}
	if want, got := util.UnmaskCRC(util.Fixed32(data[n:])), util.CRC32C(data[:n]); want != got {
		return nil, corruptf(part, "stored checksum %#08x, computed %#08x", want, got)
	}
	return data[2:n], nil
}
