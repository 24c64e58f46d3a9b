package sstable

import (
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/util"
)

const (
	// footerLen is the length of the footer: the handles of metaindex and index,
	// zeros up to 40 bytes, and the magic. It never changes.
	footerLen = 48
	// tableMagic is at the end of every table. LevelDB took it from the SHA-1 hash of
	// its URL. It never changes.
	tableMagic = uint64(0xdb4775248b80fb57)
)

// footer is LevelDB's table_format.md, "footer".
type footer struct{ metaindex, index handle }

func (f footer) append(dst []byte) []byte {
	start := len(dst)
	dst = f.index.append(f.metaindex.append(dst))
	for len(dst) < start+footerLen-8 {
		dst = append(dst, 0)
	}
	return util.AppendFixed64(dst, tableMagic)
}

// decodeFooter reads the last footerLen bytes of a file of fileSize bytes.
func decodeFooter(b []byte, fileSize uint64) (f footer, err error) {
	if len(b) != footerLen || fileSize < footerLen {
		return footer{}, base.Corruptf("footer", -1, "%d bytes; want %d", len(b), footerLen)
	}
	if magic := util.Fixed64(b[footerLen-8:]); magic != tableMagic {
		return footer{}, base.Corruptf("footer", -1, "magic number %#016x; want %#016x: "+
			"this is not a LevelDB table, or its end is missing", magic, tableMagic)
	}
	rest := b[:footerLen-8]
	if f.metaindex, rest, err = decodeHandle(rest, "footer"); err != nil {
		return footer{}, err
	}
	if f.index, _, err = decodeHandle(rest, "footer"); err != nil {
		return footer{}, err
	}
	if err := f.metaindex.check(fileSize-footerLen, "footer", "metaindex block"); err != nil {
		return footer{}, err
	}
	return f, f.index.check(fileSize-footerLen, "footer", "index block")
}
