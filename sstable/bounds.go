package sstable

import (
	"bytes"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/blocks"
	"github.com/sievedb/sievedb/util"
)

// A file can be sound and yet not be the table that its name says, if it was restored under a wrong
// name or swapped with another. Its filter then denies keys that the right table holds, and lookups
// read nothing else of it. So Open checks the first and last key if the caller passes them.
//
// Tables of a Writer have a mark of both keys in the metaindex, which Open reads anyway:
//
//	4  CRC-32C, masked, of the first entry's internal key
//	4  CRC-32C, masked, of the last entry's internal key
//
// It follows the last data block's offset, in the value of "filter.sievedb.properties". For other
// tables, each Open reads the index and the first and last data blocks.

// bounds is the mark of a table's first and last key.
type bounds struct {
	smallest, largest uint32
}

// marks are what the properties' entry of the metaindex says about the data blocks.
type marks struct {
	bounds bounds
	marked bool // bounds is set
	lone   blocks.Lone
}

// boundsLen is the length of an encoded mark, in bytes.
const boundsLen = 8

func makeBounds(smallest, largest []byte) bounds {
	return bounds{util.MaskCRC(util.CRC32C(smallest)), util.MaskCRC(util.CRC32C(largest))}
}

func (b bounds) append(dst []byte) []byte {
	return util.AppendFixed32(util.AppendFixed32(dst, b.smallest), b.largest)
}

// decodeBounds reads a mark from the front of b; ok is false if there is none, as in tables of earlier versions.
func decodeBounds(b []byte) (m bounds, ok bool) {
	if len(b) < boundsLen {
		return bounds{}, false
	}
	return bounds{util.Fixed32(b), util.Fixed32(b[4:])}, true
}

// checkBounds checks that the table begins and ends with these internal keys, using
// the mark if it has one and its data otherwise.
func (r *Reader) checkBounds(smallest, largest []byte) error {
	if smallest == nil || largest == nil {
		return nil
	}
	if !r.marks.marked {
		return r.checkBoundsByData(smallest, largest)
	}
	want := makeBounds(smallest, largest)
	if r.marks.bounds == want {
		return nil
	}
	return r.wrongTable("metaindex block", int64(r.foot.Metaindex.Offset),
		"the checksums of its first and last key differ (first: %v, last: %v); "+
			"want those of the keys in the MANIFEST, %s and %s",
		r.marks.bounds.smallest != want.smallest, r.marks.bounds.largest != want.largest, base.DescribeKey(smallest), base.DescribeKey(largest))
}

// checkBoundsByData is checkBounds for a table without a mark. Data blocks at its ends may
// be empty, as other readers of the format allow; empty ones are read too.
func (r *Reader) checkBoundsByData(smallest, largest []byte) error {
	it, err := r.NewIter(IterOptions{NoFillCache: true})
	if err != nil {
		return err
	}
	defer it.Close()
	if !it.First() {
		if it.Err() != nil {
			return it.Err()
		}
		return r.wrongTable(indexPart, int64(r.foot.Index.Offset), "it is empty; want entries")
	}
	compare := func(which string, want []byte) error {
		if bytes.Equal(it.Key(), want) {
			return nil
		}
		return r.wrongTable(dataPart, int64(it.BlockOffset()), "its %s key, %s, differs; want the one in the MANIFEST, %s",
			which, base.DescribeKey(it.Key()), base.DescribeKey(want))
	}
	if err := compare("first", smallest); err != nil {
		return err
	}
	if !it.Last() {
		return it.Err()
	}
	return compare("last", largest)
}

func (r *Reader) wrongTable(part string, offset int64, format string, args ...any) error {
	err := base.Corruptf(part, offset, "this is not the table that belongs under this name: "+format, args...)
	return base.InFile(err, r.name, -1)
}
