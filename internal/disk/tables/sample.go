package tables

import (
	"strings"

	"github.com/sievedb/sievedb/internal/base/codec"
	"github.com/sievedb/sievedb/sstable"
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
	foot, size, err := sstable.ReadFooter(f)
	if err != nil {
		return s, err
	}
	if foot.Index.Size > maxSampledIndex || foot.Metaindex.Size > maxSampledIndex {
		return s, nil
	}
	index, err := s.read(f, size, foot.Index)
	if err != nil || s.Raw == 0 {
		return s, err
	}
	_, metaindex, err := sstable.ReadBlock(f, size, foot.Metaindex)
	if err != nil {
		return s, err
	}
	_, err = sstable.EachEntry(metaindex, func(key, _ []byte) error {
		s.Ours = s.Ours || strings.TrimPrefix(string(key), "filter.") == "sievedb.properties"
		return nil
	})
	if err != nil {
		return s, err
	}
	var handles []codec.Handle
	_, err = sstable.EachEntry(index, func(_, value []byte) error {
		h, _, err := codec.DecodeHandle(value, "index block")
		handles = append(handles, h)
		return err
	})
	for i := 0; err == nil && i < min(n, len(handles)); i++ {
		_, err = s.read(f, size, handles[i*len(handles)/min(n, len(handles))])
	}
	return s, err
}

// read reads, checks and counts a block.
func (s *CompressionSample) read(f vfs.File, fileSize uint64, h codec.Handle) (data []byte, err error) {
	stored, data, err := sstable.ReadBlock(f, fileSize, h)
	if err != nil {
		return nil, err
	}
	switch kind := stored[h.Size]; {
	case kind == codec.Snappy:
		s.Snappy++
	case kind == codec.Deflate, kind == codec.Zlib && codec.IsZlib(stored[:h.Size]):
		s.Deflate++
	case kind == codec.Zstd:
		s.Zstd++
	default:
		s.Raw++
		_, would, err := codec.Append(nil, data, codec.Snappy)
		if would == codec.Snappy && err == nil {
			s.Compressible++
		}
	}
	return data, nil
}
