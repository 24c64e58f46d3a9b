package sstable

import (
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/codec"
	"github.com/sievedb/sievedb/vfs"
)

// Handle is the position of a block in the file; Size does not include the trailer of TrailerLen bytes.
type Handle struct{ Offset, Size uint64 }

func exported(h handle) Handle { return Handle{h.Offset, h.Size} }

// The sizes of the parts of a table that tools need. They never change.
const (
	FooterLen  = footerLen
	TrailerLen = blockTrailerLen
)

// DecodeFooter decodes the last FooterLen bytes of a table of fileSize bytes.
func DecodeFooter(b []byte, fileSize uint64) (metaindex, index Handle, err error) {
	f, err := codec.DecodeFooter(b, fileSize)
	return exported(f.Metaindex), exported(f.Index), err
}

// DecodeHandle decodes the value of an entry of the index or metaindex. It returns the bytes after the handle.
func DecodeHandle(b []byte) (h Handle, rest []byte, err error) {
	d, rest, err := codec.DecodeHandle(b, "block handle")
	return exported(d), rest, err
}

// ReadBlock reads a block of a table of fileSize bytes, checks its checksum and decompresses it. It
// allocates no more than the block's stored size justifies.
func ReadBlock(f vfs.File, fileSize uint64, h Handle) (data []byte, kind Compression, err error) {
	stored, data, err := readChecked(f, fileSize, handle{Offset: h.Offset, Size: h.Size})
	if stored != nil {
		kind = Compression(stored[h.Size])
	}
	return data, kind, err
}

// readChecked is ReadBlock, and returns the block as it is stored too, unless it cannot be read.
func readChecked(f vfs.File, fileSize uint64, h handle) (stored, data []byte, err error) {
	const part = "block"
	if err := h.Check(fileSize, part, part); err != nil {
		return nil, nil, err
	}
	stored = make([]byte, h.Size+blockTrailerLen)
	if _, err := vfs.ReadFull(f, stored, int64(h.Offset)); err != nil {
		return nil, nil, err
	}
	data, _, err = openBlock(stored, nil, part)
	return stored, data, err
}

// EachEntry calls fn with each key and value of a block that ReadBlock returned, and returns the number
// of its restart points. Filters are not blocks of entries. The key is valid during the call.
func EachEntry(data []byte, fn func(key, value []byte) error) (restarts int, err error) {
	b, err := newBlock(data, "block")
	if err != nil {
		return 0, err
	}
	return int(b.numRestarts), b.eachEntry("block", fn)
}

// NextBlock finds the end of the block at off of a table of fileSize bytes by its checksum, for tables
// whose index is lost.
func NextBlock(f vfs.File, fileSize, off uint64) (h Handle, found bool, err error) {
	r := &Reader{file: f}
	r.refs.Store(1) // never dropped: the caller owns the file
	s := salvager{r: r}
	d, found, err := s.nextBlock(off, fileSize, make([]byte, 64<<10))
	return exported(d), found, base.InFile(err, "", -1)
}
