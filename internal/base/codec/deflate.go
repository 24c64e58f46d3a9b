package codec

import (
	"bytes"
	"compress/flate"
	"compress/zlib"
	"io"
	"slices"
	"sync"

	"github.com/sievedb/sievedb/internal/base"
)

const (
	// DeflateRatio is the largest number of bytes to which deflate decodes one: a
	// match of 258 bytes uses two bits (RFC 1951, section 3.2.5).
	DeflateRatio = 1032
	// minInflated is a decoder's initial memory: the size of a usual block.
	minInflated = 8 << 10
	// keptInflated is how much of it an idle decoder keeps.
	keptInflated = 1 << 20
)

// IsZlib reports whether a block of kind Zstd is a zlib stream, which begins without a dictionary (RFC 1950, section
// 2.2): method 8, a window of at most 32 KiB, and two bytes that are, as a number, a multiple of 31. No Zstandard frame
// does: its magic number begins with the bytes 28 b5, which leave a remainder of 5.
func IsZlib(raw []byte) bool {
	if len(raw) < 2 {
		return false
	}
	const methodMask, deflated, maxWindow, dictionary = 0x0f, 8, 7, 0x20
	return raw[0]&methodMask == deflated && raw[0]>>4 <= maxWindow &&
		raw[1]&dictionary == 0 && (uint(raw[0])<<8|uint(raw[1]))%31 == 0
}

// inflaters are idle decoders. Each holds about 40 KiB of tables and window.
var inflaters = sync.Pool{New: func() any { return new(inflater) }}

// inflater decodes deflate streams, one after another.
type inflater struct {
	src  bytes.Reader
	raw  io.ReadCloser // decodes deflate; nil until needed
	zlib io.ReadCloser // decodes zlib; nil until needed
	out  []byte        // the last stream's bytes
}

// decodeDeflate decodes a block stored as Deflate or Zlib; see Decode. The streams do not state their decoded size, so
// they are decoded into memory that grows with the decoded bytes, up to a bound.
func decodeDeflate(raw, buf []byte, kind uint8, part string) ([]byte, error) {
	f := inflaters.Get().(*inflater)
	defer f.release()
	most := min(DecodedCap(len(raw)), DeflateRatio*uint64(len(raw))+64, maxBlockLen-1)
	if err := f.inflate(raw, kind, int(most)); err != nil {
		return nil, base.Corruptf(part, -1, "%s cannot decode %d bytes: %v; want a complete stream",
			kindName(kind), len(raw), err)
	}
	switch {
	case uint64(len(f.out)) > most:
		return nil, base.Corruptf(part, -1, "%s decodes %d bytes to too many; want at most %d", kindName(kind), len(raw), most)
	case f.src.Len() > 0:
		return nil, base.Corruptf(part, -1, "%d of %d bytes follow the end of the %s stream; want none",
			f.src.Len(), len(raw), kindName(kind))
	}
	buf = Sized(buf, len(f.out))
	copy(buf, f.out)
	return buf, nil
}

func kindName(kind uint8) string {
	if kind == Deflate {
		return "deflate"
	}
	return "zlib"
}

// inflate decodes src into f.out, and stops once f.out has more than most bytes.
func (f *inflater) inflate(src []byte, kind uint8, most int) error {
	stream, err := f.open(src, kind)
	if err != nil {
		return err
	}
	f.out = f.out[:0]
	for len(f.out) <= most {
		if len(f.out) == cap(f.out) {
			f.out = slices.Grow(f.out, min(max(len(f.out), minInflated), most+1-len(f.out)))
		}
		n, err := stream.Read(f.out[len(f.out):cap(f.out)])
		f.out = f.out[:len(f.out)+n]
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// open returns the decoder of that kind, which reads src.
func (f *inflater) open(src []byte, kind uint8) (stream io.Reader, err error) {
	f.src.Reset(src)
	switch {
	case kind == Deflate && f.raw == nil:
		f.raw = flate.NewReader(&f.src)
	case kind == Deflate:
		err = f.raw.(flate.Resetter).Reset(&f.src, nil)
	case f.zlib == nil:
		f.zlib, err = zlib.NewReader(&f.src)
	default:
		err = f.zlib.(zlib.Resetter).Reset(&f.src, nil)
	}
	if kind == Deflate {
		return f.raw, err
	}
	return f.zlib, err
}

// release returns f to the pool, without large memory or a reference to the block.
func (f *inflater) release() {
	f.src.Reset(nil)
	if cap(f.out) > keptInflated {
		f.out = nil
	}
	inflaters.Put(f)
}
