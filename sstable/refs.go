package sstable

import (
	"github.com/sievedb/sievedb/internal/base"
)

// maxRefsBlock bounds a block of references in bytes: those of some 700,000 value tables, more than a database can
// have.
const maxRefsBlock = 4 << 20

const (
	refsPart = "block of references"
	idsPart  = "block of IDs"
)

// writeValueBlocks writes the block of references, if the table has any, and that of the IDs of a value table.
func (w *Writer) writeValueBlocks(meta metaEntries) error {
	if w.opts.Values {
		if err := w.writeListed(meta, idsKey, base.AppendIDs(nil, w.opts.IDs)); err != nil {
			return err
		}
	}
	if len(w.refs) > 0 {
		return w.writeListed(meta, refsKey, base.AppendRefSums(nil, w.refs.List()))
	}
	return nil
}

// Refs returns what the entries refer to, in ascending order of the IDs; nil if they refer to nothing.
func (w *Writer) Refs() []base.RefSum { return w.refs.List() }

// HasRefs reports whether values of entries are in value tables.
func (r *Reader) HasRefs() bool { return r.meta.refs.Size > 0 }

// Refs reads what the table refers to, in ascending order of the IDs; nil if it refers to nothing.
func (r *Reader) Refs() (sums []base.RefSum, err error) {
	if !r.HasRefs() {
		return nil, r.metaindexErr()
	}
	if r.meta.refs.Size > maxRefsBlock {
		return nil, base.InFile(base.Corruptf(refsPart, -1, "it has %d bytes; want at most %d", r.meta.refs.Size, maxRefsBlock), r.name, -1)
	}
	data, err := r.metaBlock(r.meta.refs, refsPart)
	if err == nil {
		sums, err = base.DecodeRefSums(data, refsPart)
	}
	return sums, base.InFile(err, r.name, int64(r.meta.refs.Offset))
}

// IsValueTable reports whether it is a value table.
func (r *Reader) IsValueTable() bool { return r.meta.ids.Size > 0 }

// IDs reads the IDs of a value table, in ascending order; nil for early builds' tables of only the ID that is their
// number.
func (r *Reader) IDs() (ids []uint64, err error) {
	data, err := r.metaBlock(r.meta.ids, idsPart)
	if err == nil {
		ids, err = base.DecodeIDs(data, idsPart)
	}
	return ids, base.InFile(err, r.name, int64(r.meta.ids.Offset))
}

// metaindexErr returns why the metaindex, which would list further blocks, cannot be read, nil if it can.
func (r *Reader) metaindexErr() error {
	if r.status.Damaged == "" { // otherwise Err is of a filter
		return r.status.Err
	}
	return nil
}

// metaBlock reads a block that the metaindex lists.
func (r *Reader) metaBlock(h handle, part string) ([]byte, error) {
	if err := h.Check(r.limit, "metaindex block", part); err != nil {
		return nil, base.InFile(err, r.name, -1)
	}
	return r.blockIfOpen(h, part)
}
