package backup

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"iter"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/work/changes"
	"github.com/sievedb/sievedb/util"
)

// change is a change in a segment. Its slices share the bytes of the segment.
type change struct {
	kind        db.ChangeKind
	first, last uint64
	record      []byte // of a batch, as it is stored
	// Ranges that are deleted before the record is applied: their number, and the ranges as they are stored. They are
	// not decoded to a list, which could need many times the memory of the segment: a stored range may have a single
	// byte.
	ranges     uint64
	rangeBytes []byte
	tables     []int // their numbers in the head of the segment
}

// append appends the change to the content of a segment.
func (c *change) append(b []byte) []byte {
	b = append(b, byte(c.kind))
	b = util.AppendUvarint64(b, c.first)
	b = util.AppendUvarint64(b, c.last)
	b = util.AppendUvarint64(b, c.ranges)
	b = append(b, c.rangeBytes...)
	b = util.AppendLengthPrefixed(b, c.record)
	b = util.AppendUvarint64(b, uint64(len(c.tables)))
	for _, t := range c.tables {
		b = util.AppendUvarint64(b, uint64(t))
	}
	return b
}

// deleted yields the ranges of a change that was decoded. Their slices share the bytes of the segment.
func (c *change) deleted() iter.Seq[changes.Range] {
	return func(yield func(changes.Range) bool) {
		d := changes.Decoder{Rest: c.rangeBytes}
		for n := c.ranges; n > 0 && yield(d.Range()); n-- {
		}
	}
}

// take copies a change of a feed. The tables get the numbers from tables on.
func take(from db.Change, tables int) (c change, err error) {
	c = change{kind: from.Kind, first: from.First, last: from.Last, record: from.AppendRecord(nil)}
	if from.Kind == db.ChangeDeleteRange {
		for e, err := range from.Entries() {
			if err != nil {
				return c, err
			}
			if e.Kind != db.EntryDeleteRange { // they are in the record
				break
			}
			c.rangeBytes = changes.Range{Start: e.Key, Limit: e.Value}.Append(c.rangeBytes)
			c.ranges++
		}
	}
	for i := range from.Tables() {
		c.tables = append(c.tables, tables+i)
	}
	return c, nil
}

// decodeChange reads a change. Each table of a segment belongs to one change, in order: those of this one begin with number
// table. all is the number of tables of the segment.
func decodeChange(d *changes.Decoder, table, all int) (c change) {
	c.kind = db.ChangeKind(d.Byte())
	c.first, c.last = d.Number(), d.Number()
	c.ranges = d.Number()
	ranges := d.Rest
	for n := c.ranges; n > 0 && !d.Failed; n-- {
		d.Range()
	}
	c.rangeBytes = ranges[:len(ranges)-len(d.Rest)]
	c.record = d.Bytes()
	for n := d.Number(); n > 0 && !d.Failed; n-- {
		if d.Number() != uint64(table) || table >= all {
			d.Failed = true
			return c
		}
		c.tables = append(c.tables, table)
		table++
	}
	return c
}

// changeReader reads the changes of a segment with right checksums one by one, because all of them could need many
// times the memory of the segment.
type changeReader struct {
	*segment
	d      changes.Decoder
	last   uint64
	count  uint64
	tables int // of the changes so far
}

func (s *segment) reader() *changeReader {
	return &changeReader{segment: s, d: changes.Decoder{Rest: s.content}, last: s.after}
}

// next returns the next change. ok is false after an error, and at the end. An end without an error means that the
// whole segment is valid.
func (r *changeReader) next() (c change, ok bool, err error) {
	if len(r.d.Rest) == 0 {
		if r.count != r.changes || r.last != r.segmentHead.last || r.tables != len(r.segmentHead.tables) {
			err = base.Corruptf("segment", -1, "it has %d changes up to %d with %d tables; want %d up to %d with %d", r.count,
				r.last, r.tables, r.changes, r.segmentHead.last, len(r.segmentHead.tables))
		}
		return c, false, err
	}
	at := int64(len(r.content) - len(r.d.Rest))
	c = decodeChange(&r.d, r.tables, len(r.segmentHead.tables))
	switch {
	case r.d.Failed:
		err = base.Corruptf("segment", at, "a change does not decode")
	case c.kind > db.ChangeDeleteRange:
		err = base.Corruptf("segment", at, "a change has the unknown kind %d", c.kind)
	case len(c.tables) > 0 && (c.ranges > 0 || len(c.record) > 0):
		err = base.Corruptf("segment", at, "a change has tables and other writes")
	case c.first <= r.last || c.last < c.first || c.last > r.segmentHead.last:
		err = base.Corruptf("segment", at, "a change has the numbers %d to %d after %d", c.first, c.last, r.last)
	}
	if err != nil {
		return c, false, err
	}
	r.last = c.last
	r.count++
	r.tables += len(c.tables)
	return c, true, nil
}

// validate decodes all changes.
func (s *segment) validate() error {
	r := s.reader()
	for {
		if _, ok, err := r.next(); !ok {
			return err
		}
	}
}

// same reports whether two changes are the same except for their tables.
func (c *change) same(o *change) bool {
	return c.kind == o.kind && c.first == o.first && c.last == o.last && bytes.Equal(c.record, o.record) &&
		len(c.tables) == len(o.tables) && c.ranges == o.ranges && bytes.Equal(c.rangeBytes, o.rangeBytes)
}

// hexSum returns a checksum as the objects have it.
func hexSum(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
