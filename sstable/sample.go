package sstable

import (
	"github.com/sievedb/sievedb/internal/base/codec"
	"github.com/sievedb/sievedb/vfs"
)

// CompressionSample says how some blocks of a table are stored.
type CompressionSample struct {
	Snappy, Zstd int // blocks of that kind
	Deflate      int // blocks with zlib or raw deflate, which Mojang's LevelDB wrote
	Raw          int // uncompressed blocks
	Compressible int // those of Raw that a writer with Snappy would have compressed
	// Ours says that SieveDB wrote the table. It is not set if the sample ended at the index.
	Ours bool
}

// maxSampledIndex is the size in bytes of the largest index that SampleCompression reads: that of a table of a
// gigabyte.
const maxSampledIndex = 16 << 20

// SampleCompression reads the index and at most n data blocks, evenly distributed over the table in f. If the index is
// compressed, nothing else is read, because writers compress all blocks of a table in the same way. The index of a
// table with several blocks is compressible even if its values are not.
func SampleCompression(f vfs.File, n int) (s CompressionSample, err error) {
	size, err := f.Size()
	if err != nil {
		return s, err
	}
	var foot [footerLen]byte
	if size >= footerLen {
		if _, err := vfs.ReadFull(f, foot[:], size-footerLen); err != nil {
			return s, err
		}
	}
	parts, err := codec.DecodeFooter(foot[:], uint64(size))
	if err != nil {
		return s, err
	}
	if parts.Index.Size > maxSampledIndex || parts.Metaindex.Size > maxSampledIndex {
		return s, nil
	}
	index, err := s.read(f, uint64(size), parts.Index)
	if err != nil || s.Raw == 0 {
		return s, err
	}
	metaindex, _, err := ReadBlock(f, uint64(size), exported(parts.Metaindex))
	if err != nil {
		return s, err
	}
	_, err = EachEntry(metaindex, func(key, _ []byte) error {
		kind, _ := kindOfKey(key)
		s.Ours = s.Ours || kind == metaProperties
		return nil
	})
	if err != nil {
		return s, err
	}
	handles, err := handlesOf(index)
	for i := 0; err == nil && i < min(n, len(handles)); i++ {
		_, err = s.read(f, uint64(size), handles[i*len(handles)/min(n, len(handles))])
	}
	return s, err
}

// handlesOf returns the handles of an index block.
func handlesOf(index []byte) (handles []handle, err error) {
	_, err = EachEntry(index, func(_, value []byte) error {
		h, _, err := codec.DecodeHandle(value, "index block")
		handles = append(handles, h)
		return err
	})
	return handles, err
}

// read reads, checks and counts a block.
func (s *CompressionSample) read(f vfs.File, fileSize uint64, h handle) (data []byte, err error) {
	stored, data, err := readChecked(f, fileSize, h)
	if err != nil {
		return nil, err
	}
	switch kind := Compression(stored[h.Size]); {
	case kind == Snappy:
		s.Snappy++
	case kind == deflateKind, kind == zlibKind && codec.IsZlib(stored[:h.Size]):
		s.Deflate++
	case kind == Zstd:
		s.Zstd++
	default:
		s.Raw++
		_, would, err := appendCompressed(nil, data, Snappy)
		if would == Snappy && err == nil {
			s.Compressible++
		}
	}
	return data, nil
}
