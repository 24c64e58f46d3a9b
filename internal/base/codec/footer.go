package codec

import (
	"encoding/binary"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/util"
)

const (
	// FooterLen is the length of the footer: the handles of metaindex and index,
	// zeros up to 40 bytes, and the magic. It never changes.
	FooterLen = 48
	// TableMagic is at the end of every table. LevelDB took it from the SHA-1 hash of its URL. It never changes.
	TableMagic = uint64(0xdb4775248b80fb57)
	// newerMagic begins the last 8 bytes of tables that a later version writes if this one must not
	// read them; one more byte distinguishes such versions.
	newerMagic = "sieveTB"
)

// Footer is LevelDB's table_format.md, "footer".
type Footer struct{ Metaindex, Index Handle }

// Append appends the footer to dst.
func (f Footer) Append(dst []byte) []byte {
	start := len(dst)
	dst = f.Index.Append(f.Metaindex.Append(dst))
	for len(dst) < start+FooterLen-8 {
		dst = append(dst, 0)
	}
	return util.AppendFixed64(dst, TableMagic)
}

// DecodeFooter reads the last FooterLen bytes of a file of fileSize bytes.
func DecodeFooter(b []byte, fileSize uint64) (f Footer, err error) {
	if len(b) != FooterLen || fileSize < FooterLen {
		return Footer{}, base.Corruptf("footer", -1, "%d bytes; want %d", len(b), FooterLen)
	}
	if magic := b[FooterLen-8:]; string(magic[:len(newerMagic)]) == newerMagic {
		return Footer{}, base.Newerf("footer", int64(fileSize-8), "the magic is %q; the known one is %#016x", magic, TableMagic)
	}
	magic := util.Fixed64(b[FooterLen-8:])
	if engine, known := TableEngine(b); known && engine != "" {
		return Footer{}, errors.Wrapf(base.ErrForeign, "the file ends like a table of %s (magic number %#016x), and is not damaged: "+
			"read its entries with that engine, and write them to a database here, in batches or with 'sievedb load'", engine, magic)
	}
	if magic != TableMagic {
		return Footer{}, base.Corruptf("footer", -1, "magic number %#016x; want %#016x: "+
			"this is not a LevelDB table, or its end is missing", magic, TableMagic)
	}
	rest := b[:FooterLen-8]
	if f.Metaindex, rest, err = DecodeHandle(rest, "footer"); err != nil {
		return Footer{}, err
	}
	if f.Index, _, err = DecodeHandle(rest, "footer"); err != nil {
		return Footer{}, err
	}
	if err := f.Metaindex.Check(fileSize-FooterLen, "footer", "metaindex block"); err != nil {
		return Footer{}, err
	}
	return f, f.Index.Check(fileSize-FooterLen, "footer", "index block")
}

// The magic numbers at the end of tables and of files with values, from the sources of the engines. They never change.
var engines = map[uint64]string{
	TableMagic:         "",         // also RocksDB's with format_version 0, HyperLevelDB's and Riak's
	0x88e241b785f4cff7: "RocksDB",  // table/block_based/block_based_table_builder.cc
	0x8242229663bf9564: "RocksDB",  // table/plain/plain_table_builder.cc
	0x4f3418eb7a8f13b8: "RocksDB",  // the same, before 2014
	0x926789d0c5f17873: "RocksDB",  // table/cuckoo/cuckoo_table_builder.cc
	0x1122334455667788: "TerarkDB", // terark_zip_table_builder.cc
	0xb3aa9ff0b3aa9ff0: "Pebble",   // sstable/table.go, all formats of its own, up to Pebblev7
	0x80a69ff0b3aa9ff0: "Pebble",   // sstable/blob/blob.go
}

// TableEngine returns the engine whose tables end with such bytes, "" for LevelDB and those that write its format.
// known is false if there is no such engine.
func TableEngine(end []byte) (engine string, known bool) {
	if n := len(end); n >= 8 {
		if engine, known = engines[util.Fixed64(end[n-8:])]; !known && endsLikeBadgers(end) {
			engine, known = "Badger", true
		}
	}
	return engine, known
}

// endsLikeBadgers reports whether the bytes are the end of a table of Badger's, which has no magic number: the length
// of the index, the index's checksum in a protocol buffer (pb.Checksum: 16, then the sum as a varint, after 8 and the
// algorithm unless that is CRC-32C), and its length, big-endian. See table/builder.go and pb/badgerpb4.proto.
func endsLikeBadgers(end []byte) bool {
	at := len(end) - 4
	n := int(binary.BigEndian.Uint32(end[at:]))
	if n < 2 || n > 13 || n+4 > at {
		return false
	}
	sum := end[at-n : at]
	if sum[0] == 8 && n > 3 {
		sum = sum[2:]
	}
	_, used := util.Uvarint64(sum[1:])
	return sum[0] == 16 && used == len(sum)-1 && binary.BigEndian.Uint32(end[at-n-4:]) > 0
}
