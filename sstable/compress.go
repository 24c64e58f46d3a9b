package sstable

import (
	"slices"
	"sync"

	"github.com/golang/snappy"
	"github.com/klauspost/compress/zstd"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/errors"
)

// Compression is how a block is stored. It is the byte after the block in the file,
// whose values never change.
type Compression uint8

// The kinds of compression that are written, as LevelDB numbers them.
const (
	NoCompression Compression = 0
	Snappy        Compression = 1
	Zstd          Compression = 2
)

// Mojang's LevelDB, which Minecraft worlds use, had its own kinds before LevelDB
// had Zstandard. They are read, never written. Its kind 2 is zlib, which the first
// stored bytes distinguish from Zstandard.
const (
	zlibKind    = Zstd
	deflateKind = Compression(4) // deflate without zlib's header and checksum
)

// maxDecoded bounds the decoded size of a compressed block, in bytes, unless its
// stored size justifies more. A Writer stores larger blocks uncompressed.
const maxDecoded = 64 << 20

// decodedCap bounds the decoded size of a stored block of n bytes, so that
// allocations stay within 64 MiB plus 8 times the file's size.
func decodedCap(n int) uint64 { return max(maxDecoded, 8*uint64(n)) }

// zstdLevel is level 1, LevelDB's own default for its zstd_compression_level.
var zstdLevel = zstd.EncoderLevelFromZstd(1)

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
			zstd.WithEncoderLevel(zstdLevel),
			zstd.WithEncoderCRC(false),   // the block's trailer has one
			zstd.WithSingleSegment(true)) // always states the content's size
	})
)

// appendCompressed appends block to dst, compressed as kind if that saves an eighth
// of it (LevelDB's rule, table/table_builder.cc), and uncompressed otherwise. It
// returns the kind that it stored.
func appendCompressed(dst, block []byte, kind Compression) ([]byte, Compression, error) {
	start := len(dst)
	if kind != NoCompression && len(block) <= maxDecoded {
		var err error
		if dst, err = appendCodec(dst, block, kind); err != nil {
			return dst[:start], kind, err
		}
		if n := len(dst) - start; n < len(block)-len(block)/8 {
			return dst, kind, nil
		}
	}
	return append(dst[:start], block...), NoCompression, nil
}

func appendCodec(dst, block []byte, kind Compression) ([]byte, error) {
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

// decompress returns the decoded form of a block stored as kind. It is raw itself if
// that is not compressed, and otherwise in buf if that has room, or in a new slice
// of exactly the size needed. The claimed size is checked before the allocation.
func decompress(kind Compression, raw, buf []byte, part string) ([]byte, error) {
	switch kind {
	case NoCompression:
		return raw, nil
	case Snappy:
		return decodeSnappy(raw, buf, part)
	case Zstd:
		if hasZlibHeader(raw) {
			return decodeDeflate(raw, buf, zlibKind, part)
		}
		return decodeZstd(raw, buf, part)
	case deflateKind:
		return decodeDeflate(raw, buf, deflateKind, part)
	}
	return nil, base.Corruptf(part, -1, "compression kind %d is unknown; want 0 (none), 1 (Snappy), "+
		"2 (Zstandard or zlib) or 4 (deflate)", kind)
}

func decodeSnappy(raw, buf []byte, part string) ([]byte, error) {
	n, err := snappy.DecodedLen(raw)
	// No Snappy element of 3 bytes decodes to more than 64, so 32 times is generous.
	if most := min(decodedCap(len(raw)), 32*uint64(len(raw))+64); err != nil || uint64(n) > most {
		return nil, base.Corruptf(part, -1, "Snappy claims to decode %d bytes to %d; want at most %d", len(raw), n, most)
	}
	buf = sized(buf, n)
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
	if most := decodedCap(len(raw)); head.FrameContentSize > most {
		return nil, base.Corruptf(part, -1, "Zstandard claims to decode %d bytes to %d; want at most %d",
			len(raw), head.FrameContentSize, most)
	}
	n := int(head.FrameContentSize)
	buf = sized(buf, n)
	out, err := dec.DecodeAll(raw, buf[:0:n])
	if err != nil || len(out) != n {
		return nil, base.Corruptf(part, -1, "Zstandard cannot decode %d bytes; want the claimed %d", len(raw), n)
	}
	return out, nil
}

// sized returns a slice of n bytes. It reuses buf if that is large enough, but does not keep a
// large block's memory for small blocks, since an iterator would hold it until it is closed. New
// memory has the capacity that the allocator provides, so that a cache can charge for it.
func sized(buf []byte, n int) []byte {
	if n <= cap(buf) && (cap(buf) <= maxScratch || n > cap(buf)/4) {
		return buf[:n]
	}
	return slices.Grow([]byte(nil), n)[:n]
}
