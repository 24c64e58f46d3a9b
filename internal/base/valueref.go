package base

import (
	"maps"
	"math"
	"slices"

	"github.com/sievedb/sievedb/util"
)

// ValueRef says where the value of an entry is whose kind is KindRef: in the value table that has the ID, under the
// same user key and Seq, which was the entry's sequence number when the value was written there. Encoded, as the value
// of the entry, it is
//
//	varint  ID
//	varint  Seq
//	varint  Len, the length of the value in bytes
type ValueRef struct {
	ID, Seq, Len uint64
}

// maxRefLen is above the length of every value that a block can hold.
const maxRefLen = 1 << 31

// Append appends the encoded reference to dst.
func (r ValueRef) Append(dst []byte) []byte {
	for _, v := range []uint64{r.ID, r.Seq, r.Len} {
		dst = util.AppendUvarint64(dst, v)
	}
	return dst
}

// DecodeValueRef decodes a reference that is all of b.
func DecodeValueRef(b []byte) (r ValueRef, err error) {
	rest := b
	for _, v := range []*uint64{&r.ID, &r.Seq, &r.Len} {
		n := 0
		if *v, n = util.Uvarint64(rest); n == 0 {
			return ValueRef{}, notRef(b)
		}
		rest = rest[n:]
	}
	if len(rest) > 0 || r.ID == 0 || r.ID > MaxFileNum || r.Seq > MaxSeq || r.Len > maxRefLen {
		return ValueRef{}, notRef(b)
	}
	return r, nil
}

func notRef(b []byte) error {
	return Corruptf("data block", -1, "an entry of kind %d has %d bytes that are no reference to a value", KindRef, len(b))
}

// RefSum says how many bytes of values a table refers to in the value table with that ID.
type RefSum struct {
	ID, Bytes uint64
}

// RefSums are those of a table that is being written, by ID. In the table they are a block of their own, which the
// metaindex lists under a name that readers must know, because entries of KindRef mean nothing to others.
type RefSums map[uint64]uint64

// Count counts an entry. It returns an error if the entry's value should be a reference and is not.
func (s *RefSums) Count(ikey, value []byte) error {
	if _, kind := SplitTrailer(Trailer(ikey)); kind != KindRef {
		return nil
	}
	ref, err := DecodeValueRef(value)
	if err != nil {
		return err
	}
	if *s == nil {
		*s = RefSums{}
	}
	(*s)[ref.ID] += ref.Len
	return nil
}

// List returns the sums in ascending order of the IDs; nil if there are none.
func (s RefSums) List() (sums []RefSum) {
	for _, id := range slices.Sorted(maps.Keys(s)) {
		sums = append(sums, RefSum{ID: id, Bytes: s[id]})
	}
	return sums
}

// AppendRefSums appends sums, which ascend, to dst. Each is encoded as
//
//	varint  ID minus the one before it, or minus 0
//	varint  Bytes
func AppendRefSums(dst []byte, sums []RefSum) []byte {
	last := uint64(0)
	for _, s := range sums {
		dst = util.AppendUvarint64(util.AppendUvarint64(dst, s.ID-last), s.Bytes)
		last = s.ID
	}
	return dst
}

// DecodeRefSums decodes sums that are all of b, a part of a table.
func DecodeRefSums(b []byte, part string) (sums []RefSum, err error) {
	last := uint64(0)
	for rest := b; len(rest) > 0; {
		step, n := util.Uvarint64(rest)
		bytes, m := util.Uvarint64(rest[n:])
		if n == 0 || m == 0 || step == 0 || step > MaxFileNum-last || bytes > math.MaxInt64 {
			return nil, Corruptf(part, -1, "no reference in ascending order is at byte %d", len(b)-len(rest))
		}
		last += step
		sums, rest = append(sums, RefSum{last, bytes}), rest[n+m:]
	}
	return sums, nil
}

// AppendIDs appends IDs of value tables, which ascend, to dst: their number, then each minus the one before it, as
// varints.
func AppendIDs(dst []byte, ids []uint64) []byte {
	dst = util.AppendUvarint64(dst, uint64(len(ids)))
	last := uint64(0)
	for _, id := range ids {
		dst = util.AppendUvarint64(dst, id-last)
		last = id
	}
	return dst
}

// DecodeIDs decodes IDs at the front of b, a part of a table.
func DecodeIDs(b []byte, part string) (ids []uint64, err error) {
	count, n := util.Uvarint64(b)
	if n == 0 || count > uint64(len(b)-n) {
		return nil, Corruptf(part, -1, "it has %d bytes; want one for each ID at least", len(b))
	}
	last, rest := uint64(0), b[n:]
	for range count {
		step, n := util.Uvarint64(rest)
		if n == 0 || step == 0 || step > MaxFileNum-last {
			return nil, Corruptf(part, -1, "no ID in ascending order is at byte %d", len(b)-len(rest))
		}
		last, rest = last+step, rest[n:]
		ids = append(ids, last)
	}
	return ids, nil
}
