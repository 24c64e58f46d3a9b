package sstable

import (
	"crypto/sha256"

	"github.com/sievedb/sievedb"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/codec"
	"github.com/sievedb/sievedb/util"
	"github.com/sievedb/sievedb/vfs"
)

// maxIdentityBlock bounds the blocks that Identify reads, in bytes. A metaindex has some hundred.
const maxIdentityBlock = 1 << 20

// Identify returns a checksum that identifies the data of the table in f, and reads less than a thousand bytes for it
// besides the IDs of values, whatever the table's size. Tables with the same identity have the same data blocks in the
// same order, filters of the same kinds and sizes, and, if they have values, the same IDs: it is the SHA-256 of the
// footer, the metaindex, the properties, which contain a hash of all data blocks (see Properties.ContentHash), the IDs,
// and the size of the file.
//
// ok is false if the table has no such hash, as the tables of other programs and those of SieveDB
// before it had the hash. A damaged footer, metaindex or properties block is an error.
func Identify(f vfs.File) (id [sha256.Size]byte, ok bool, err error) {
	n, err := f.Size()
	if err != nil {
		return id, false, err
	}
	size := uint64(n)
	if size < footerLen {
		return id, false, base.Corruptf("footer", 0, "the file has %d bytes; want at least %d", size, footerLen)
	}
	foot := make([]byte, footerLen)
	if _, err := vfs.ReadFull(f, foot, int64(size-footerLen)); err != nil {
		return id, false, err
	}
	parsed, err := codec.DecodeFooter(foot, size)
	if err != nil {
		return id, false, err
	}
	metaBytes, ok, err := readPlain(f, parsed.Metaindex, "metaindex block")
	if !ok {
		return id, false, err
	}
	meta, err := decodeMetaindex(metaBytes)
	if err != nil || meta.properties.Size == 0 {
		return id, false, err
	}
	parts := [][]byte{foot, metaBytes}
	for i, h := range []handle{meta.properties, meta.ids}[:1+min(meta.ids.Size, 1)] {
		part := []string{propertiesPart, idsPart}[i]
		if err := h.Check(size-footerLen, "metaindex block", part); err != nil {
			return id, false, err
		}
		block, ok, err := readPlain(f, h, part)
		if !ok {
			return id, false, err
		}
		parts = append(parts, block)
	}
	props, err := decodeProperties(parts[2])
	if err != nil || props.ContentHash == 0 {
		return id, false, err
	}
	all := util.AppendFixed64(nil, size)
	for _, part := range parts {
		all = append(util.AppendFixed64(all, uint64(len(part))), part...)
	}
	return sha256.Sum256(all), true, nil
}

// readPlain reads a block and verifies its checksum. ok is false if it is compressed or large, and so
// not written by SieveDB.
func readPlain(f vfs.File, h handle, part string) (block []byte, ok bool, err error) {
	if h.Size > maxIdentityBlock {
		return nil, false, nil
	}
	stored := make([]byte, h.Size+blockTrailerLen)
	if _, err := vfs.ReadFull(f, stored, int64(h.Offset)); err != nil {
		return nil, false, err
	}
	if err := checkStored(stored, part); err != nil {
		return nil, false, base.InFile(err, "", int64(h.Offset))
	}
	return stored[:h.Size], Compression(stored[h.Size]) == NoCompression, nil
}

// VerifyContent reads the whole table in f, and returns an error that matches base.ErrCorruption unless all
// of its blocks have their checksums, and the data blocks have the hash that Identify relies on. The table
// must have that hash. A nil comparer means sievedb.Bytewise.
func VerifyContent(f vfs.File, cmp *sievedb.Comparer) error {
	r, err := Open(keptOpen{f}, ReaderOptions{Comparer: cmp})
	if err != nil {
		return err
	}
	defer r.Close()
	ix, _, err := r.loadIndex()
	if err != nil {
		return err
	}
	props, _, err := r.CheckProperties()
	if err != nil {
		return err
	}
	meta, err := r.readMetaindex()
	if err != nil {
		return err
	}
	for _, filters := range []map[string]handle{meta.filters, meta.ranges} {
		for _, h := range filters {
			if err := h.Check(r.limit, "metaindex block", "filter block"); err != nil {
				return err
			}
			if _, err := r.readStored(nil, h, "filter block"); err != nil {
				return err
			}
		}
	}
	if _, err := r.Refs(); err != nil {
		return err
	}
	if r.IsValueTable() {
		if _, err := r.IDs(); err != nil {
			return err
		}
	}
	var content codec.ContentHash
	var stored []byte
	for i := range ix.Len() {
		if stored, err = r.readStored(stored, ix.Handle(i), dataPart); err != nil {
			return err
		}
		content.AddStored(stored)
	}
	if got := content.Property(); got != props.ContentHash {
		return base.Corruptf(propertiesPart, -1, "the hash of the data blocks is %#x; want %#x", props.ContentHash, got)
	}
	return nil
}

// keptOpen is a file that stays open.
type keptOpen struct{ vfs.File }

func (keptOpen) Close() error { return nil }

// readStored reads a block with its trailer, using the memory of buf, and verifies its checksum.
func (r *Reader) readStored(buf []byte, h handle, part string) ([]byte, error) {
	buf = codec.Sized(buf, int(h.Size)+blockTrailerLen)
	if err := r.readAt(buf, h.Offset, part); err != nil {
		return nil, err
	}
	return buf, base.InFile(checkStored(buf, part), r.name, int64(h.Offset))
}
