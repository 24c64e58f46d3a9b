package manifest

import (
	"cmp"
	"slices"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/util"
)

// encodeValues appends the fields about value tables.
func (e *Edit) encodeValues(dst []byte) []byte {
	for _, d := range e.Values {
		dst = util.AppendUvarint32(dst, tagValues)
		dst = util.AppendUvarint64(util.AppendUvarint64(dst, d.ID), d.File)
		dst = util.AppendUvarint64(dst, uint64(d.Live)<<1^uint64(d.Live>>63))
	}
	return dst
}

// valueField decodes a field about value tables.
func (d *editDecoder) valueField(tag uint32, v *editVisitor) {
	switch tag {
	case tagNewValues:
		v.table = addedFile{valueBytes: d.uvarint64("bytes of values"), values: true}
		d.newFile(v, version.ValuesLevel)
	case tagDeletedValues:
		if num := d.fileNum("deleted value table"); d.err == nil && v.deleted != nil {
			v.deleted(version.ValuesLevel, num)
		}
	default:
		if delta := d.values(); d.err == nil && v.values != nil {
			v.values(delta)
		}
	}
}

// values decodes a ValueDelta.
func (d *editDecoder) values() version.ValueDelta {
	v := version.ValueDelta{ID: d.fileNum("ID of values"), File: d.fileNum("number of a value table")}
	live := d.uvarint64("bytes of values")
	v.Live = int64(live>>1) ^ -int64(live&1)
	if v.ID == 0 || v.ID > base.MaxFileNum {
		d.fail("the ID of values is %d, want 1 to %d", v.ID, base.MaxFileNum)
	}
	return v
}

// valueSums has the deltas of many edits. Those of one ID are combined now and then.
type valueSums struct {
	deltas []version.ValueDelta
	most   int // deltas before they are combined
}

// add adds a delta. Sums may wrap around in between: only a MANIFEST that is wrong has others in the end.
func (s *valueSums) add(d version.ValueDelta) {
	if len(s.deltas) >= max(s.most, 1000) {
		s.combine()
		s.most = 2 * len(s.deltas)
	}
	s.deltas = append(s.deltas, d)
}

// combine makes one delta of those of an ID, and none of an ID to which nothing refers.
func (s *valueSums) combine() {
	slices.SortStableFunc(s.deltas, func(a, b version.ValueDelta) int { return cmp.Compare(a.ID, b.ID) })
	out := s.deltas[:0]
	for rest := s.deltas; len(rest) > 0; {
		sum, n := rest[0], 1
		for ; n < len(rest) && rest[n].ID == sum.ID; n++ {
			if sum.Live += rest[n].Live; rest[n].File > 0 {
				sum.File = rest[n].File
			}
		}
		rest = rest[n:]
		if sum.Live != 0 {
			out = append(out, sum)
		}
	}
	s.deltas = out
}

// list returns the combined deltas.
func (s *valueSums) list() []version.ValueDelta {
	s.combine()
	return s.deltas
}
