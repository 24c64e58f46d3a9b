package sstable

import "github.com/sievedb/sievedb/internal/base/codec"

// Compression is how a block is stored. It is the byte after the block in the file, whose values never change.
type Compression uint8

// The kinds of compression that are written, as LevelDB numbers them.
const (
	NoCompression = Compression(codec.None)
	Snappy        = Compression(codec.Snappy)
	Zstd          = Compression(codec.Zstd)
)

// appendCompressed is codec.Append.
func appendCompressed(dst, block []byte, kind Compression) ([]byte, Compression, error) {
	dst, stored, err := codec.Append(dst, block, uint8(kind))
	return dst, Compression(stored), err
}

// decompress is codec.Decode.
func decompress(kind Compression, raw, buf []byte, part string) ([]byte, error) {
	return codec.Decode(uint8(kind), raw, buf, part)
}

// The footer and the positions of blocks.
type (
	handle = codec.Handle
	footer = codec.Footer
)

const (
	blockTrailerLen = codec.BlockTrailerLen
	footerLen       = codec.FooterLen
)
