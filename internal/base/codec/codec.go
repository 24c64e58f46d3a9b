// Package codec compresses and decompresses the blocks of tables: with Snappy and Zstandard, as LevelDB does,
// and from zlib and deflate, which Mojang's LevelDB wrote.
package codec

import (
	"math"
	"slices"
	"sync"

	"github.com/golang/snappy"
	"github.com/klauspost/compress/zstd"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
)

// The kinds of compression: the byte after a block in the file, as LevelDB numbers them.
const (
	None   uint8 = 0
	Snappy uint8 = 1
	Zstd   uint8 = 2
)

// Mojang's LevelDB, which Minecraft worlds use, had its own kinds before LevelDB had Zstandard. They are read, never
// written. Its kind 2 is zlib, which the first stored bytes distinguish from Zstandard.
const (
	Zlib    = Zstd
	Deflate = uint8(4) // without zlib's header and checksum
)

// MaxDecoded bounds the decoded size of a compressed block, in bytes, unless its
// stored size justifies more. Larger blocks are stored uncompressed.
const MaxDecoded = 64 << 20

// maxBlockLen bounds the decoded size of any block, in bytes: offsets in it have 32 bits.
const maxBlockLen = math.MaxInt32

// DecodedCap bounds the decoded size of a stored block of n bytes, so that
// allocations stay within 64 MiB plus 8 times the file's size.
func DecodedCap(n int) uint64 { return max(MaxDecoded, 8*uint64(n)) }

// ZstdLevel is level 1, LevelDB's own default for its zstd_compression_level.
var ZstdLevel = zstd.EncoderLevelFromZstd(1)

// The Zstandard codecs are made at the first use: most databases never need them.
// They are safe for concurrent use and hold no goroutines.
var (
	zstdDecoder = sync.OnceValues(func() (*zstd.Decoder, error) {
		return zstd.NewReader(nil,
			zstd.WithDecoderConcurrency(0), // at most GOMAXPROCS run, others wait
			zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxMemory(maxBlockLen),
			zstd.WithDecodeAllCapLimit(true)) // never more than the buffer given
	})
	zstdEncoder = sync.OnceValues(func() (*zstd.Encoder, error) {
		return zstd.NewWriter(nil,
			zstd.WithEncoderLevel(ZstdLevel),
			zstd.WithEncoderCRC(false),   // the block's trailer has one
			zstd.WithSingleSegment(true)) // always states the content's size
	})
)

// Append appends block to dst, compressed as kind if that saves an eighth of it (LevelDB's rule,
// table/table_builder.cc), and uncompressed otherwise. It returns the kind that it stored.
func Append(dst, block []byte, kind uint8) ([]byte, uint8, error) {
	start := len(dst)
	if kind != None && len(block) <= MaxDecoded {
		var err error
		if dst, err = appendCodec(dst, block, kind); err != nil {
			return dst[:start], kind, err
		}
		if n := len(dst) - start; n < len(block)-len(block)/8 {
			return dst, kind, nil
		}
	}
	return append(dst[:start], block...), None, nil
}

func appendCodec(dst, block []byte, kind uint8) ([]byte, error) {
	switch kind {
	case Snappy:
		start, most := len(dst), snappy.MaxEncodedLen(len(block))
		dst = slices.Grow(dst, most)
		out := snappy.Encode(dst[start:start+most], block)
		return dst[:start+len(out)], nil
	case Zstd:
		enc, err := zstdEncoder()
		if err != nil {
			return dst, err
		}
		return enc.EncodeAll(block, dst), nil
	}
	return dst, errors.Newf("compression kind %d cannot be written; want 0 (none), 1 (Snappy) or 2 (Zstandard)", kind)
}

// Decode returns the decoded form of a block stored as kind. It is raw itself if that is not compressed, and otherwise
// in buf if that has room, or in a new slice of exactly the size needed. The claimed size is checked before the
// allocation. part names the block in an error, which is a base.NewerError for an unknown kind: the caller has verified
// the checksum.
func Decode(kind uint8, raw, buf []byte, part string) ([]byte, error) {
	switch kind {
	case None:
		return raw, nil
	case Snappy:
		return decodeSnappy(raw, buf, part)
	case Zstd:
		if IsZlib(raw) {
			return decodeDeflate(raw, buf, Zlib, part)
		}
		return decodeZstd(raw, buf, part)
	case Deflate:
		return decodeDeflate(raw, buf, Deflate, part)
	}
	return nil, base.Newerf(part, -1, "compression kind %d is unknown; the known ones are 0 (none), 1 (Snappy), "+
		"2 (Zstandard or zlib) and 4 (deflate)", kind)
}

func decodeSnappy(raw, buf []byte, part string) ([]byte, error) {
	n, err := snappy.DecodedLen(raw)
	// No Snappy element of 3 bytes decodes to more than 64, so 32 times is generous.
	if most := min(DecodedCap(len(raw)), 32*uint64(len(raw))+64); err != nil || uint64(n) > most {
		return nil, base.Corruptf(part, -1, "Snappy claims to decode %d bytes to %d; want at most %d", len(raw), n, most)
	}
	buf = Sized(buf, n)
	out, err := snappy.Decode(buf, raw)
	if err != nil || len(out) != n {
		return nil, base.Corruptf(part, -1, "Snappy cannot decode %d bytes; want the claimed %d", len(raw), n)
	}
	return out, nil
}

func decodeZstd(raw, buf []byte, part string) ([]byte, error) {
	dec, err := zstdDecoder()
	if err != nil {
		return nil, err
	}
	var head zstd.Header
	if err := head.Decode(raw); err != nil || head.Skippable || !head.HasFCS {
		return nil, base.Corruptf(part, -1, "%d bytes of compression kind 2 have an unknown header; "+
			"want a Zstandard frame that states its size, or a zlib header", len(raw))
	}
	if most := DecodedCap(len(raw)); head.FrameContentSize > most {
		return nil, base.Corruptf(part, -1, "Zstandard claims to decode %d bytes to %d; want at most %d",
			len(raw), head.FrameContentSize, most)
	}
	n := int(head.FrameContentSize)
	buf = Sized(buf, n)
	out, err := dec.DecodeAll(raw, buf[:0:n])
	if err != nil || len(out) != n {
		return nil, base.Corruptf(part, -1, "Zstandard cannot decode %d bytes; want the claimed %d", len(raw), n)
	}
	return out, nil
}

// DecodedLen returns how many bytes Decode would return; ok is false if the block does not say that. It does not check
// more.
func DecodedLen(kind uint8, raw []byte) (n uint64, ok bool) {
	switch kind {
	case None:
		return uint64(len(raw)), true
	case Snappy:
		n, err := snappy.DecodedLen(raw)
		return uint64(n), err == nil
	case Zstd:
		var head zstd.Header
		err := head.Decode(raw)
		return head.FrameContentSize, err == nil && head.HasFCS && !IsZlib(raw)
	}
	return 0, false
}

// MaxScratch is the size in bytes up to which Sized keeps memory whatever is asked for.
const MaxScratch = 256 << 10

// Sized returns a slice of n bytes. It reuses buf if that is large enough, but does not keep a
// large block's memory for small blocks, since an iterator would hold it until it is closed. New
// memory has the capacity that the allocator provides, so that a cache can charge for it.
func Sized(buf []byte, n int) []byte {
	if n <= cap(buf) && (cap(buf) <= MaxScratch || n > cap(buf)/4) {
		return buf[:n]
	}
	return slices.Grow([]byte(nil), n)[:n]
}
