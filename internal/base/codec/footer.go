package codec

import (
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/util"
)

const (
	// FooterLen is the length of the footer: the handles of metaindex and index,
	// zeros up to 40 bytes, and the magic. It never changes.
	FooterLen = 48
	// TableMagic is at the end of every table. LevelDB took it from the SHA-1 hash of
	// its URL. It never changes.
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
	if magic := util.Fixed64(b[FooterLen-8:]); magic != TableMagic {
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
