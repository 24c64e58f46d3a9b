package txn

import (
	"encoding/binary"
	"slices"

	"github.com/sievedb/sievedb/internal/base"
)

// Reads is the set of keys and ranges that a transaction has read. The zero value with a comparer
// is empty. It is used by one goroutine at a time.
type Reads struct {
	Comparer *base.Comparer

	recent []byte   // uvarint length | key, of keys that are not in keys yet
	keys   [][]byte // sorted, each once
	size   int      // bytes of keys
	ranges []Range
	merged bool // ranges are sorted and do not overlap
}

// Range is a range of keys.
type Range struct {
	Lower []byte // the first key; nil: no bound
	Upper []byte // the end; nil: no bound
	// Closed says that Upper belongs to the range.
	Closed bool
}

// firstBytes is the first capacity for keys. It doubles then.
const firstBytes = 128

// The numbers of bytes of new keys, and of ranges, from which repeated ones are removed.
const (
	compactBytes  = 1 << 20
	compactRanges = 1 << 10
)

// Empty reports whether nothing was read.
func (r *Reads) Empty() bool { return len(r.recent) == 0 && len(r.keys) == 0 && len(r.ranges) == 0 }

// AddKey records that key was read. It copies key.
func (r *Reads) AddKey(key []byte) {
	if len(r.recent) > max(compactBytes, r.size) {
		r.compact()
	}
	if need := binary.MaxVarintLen32 + len(key); cap(r.recent)-len(r.recent) < need {
		r.recent = slices.Grow(r.recent, max(need, cap(r.recent), firstBytes))
	}
	r.recent = append(binary.AppendUvarint(r.recent, uint64(len(key))), key...)
}

// AddRange records that the keys of a range were read, and that it has no other keys.
// It copies the bounds.
func (r *Reads) AddRange(a Range) {
	if a.Lower != nil {
		a.Lower = append([]byte{}, a.Lower...)
	}
	if a.Upper != nil {
		a.Upper = append([]byte{}, a.Upper...)
	}
	r.ranges, r.merged = append(r.ranges, a), false
	if n := len(r.ranges); n >= compactRanges && n&(n-1) == 0 {
		r.merge()
	}
}

// Prepare sorts the set for Covers. It must be called after the last addition, and before
// concurrent calls.
func (r *Reads) Prepare() {
	r.compact()
	r.merge()
}

// compact moves the recent keys to the sorted ones.
func (r *Reads) compact() {
	if len(r.recent) == 0 {
		return
	}
	for rest := r.recent; len(rest) > 0; {
		length, n := binary.Uvarint(rest)
		end := n + int(length)
		r.keys = append(r.keys, rest[n:end:end])
		rest = rest[end:]
	}
	slices.SortFunc(r.keys, r.Comparer.Compare)
	r.keys = slices.CompactFunc(r.keys, func(a, b []byte) bool { return r.Comparer.Compare(a, b) == 0 })
	r.size = 0
	for _, key := range r.keys {
		r.size += len(key)
	}
	// The keys are copied, so that the memory of those removed is freed.
	all := make([]byte, 0, r.size)
	for i, key := range r.keys {
		all = append(all, key...)
		r.keys[i] = all[len(all)-len(key) : len(all) : len(all)]
	}
	r.recent = r.recent[:0]
}

// merge sorts the ranges and joins those that overlap or touch.
func (r *Reads) merge() {
	if r.merged {
		return
	}
	slices.SortFunc(r.ranges, func(a, b Range) int { return r.compareLower(a.Lower, b.Lower) })
	out := r.ranges[:0]
	for _, a := range r.ranges {
		if n := len(out); n > 0 && r.touches(&out[n-1], a.Lower) {
			r.extend(&out[n-1], &a)
			continue
		}
		out = append(out, a)
	}
	clear(r.ranges[len(out):])
	r.ranges, r.merged = out, true
}

func (r *Reads) compareLower(a, b []byte) int {
	switch {
	case a == nil && b == nil:
		return 0
	case a == nil:
		return -1
	case b == nil:
		return 1
	}
	return r.Comparer.Compare(a, b)
}

// touches reports whether no key lies between a and lower, which is not before the beginning of a.
func (r *Reads) touches(a *Range, lower []byte) bool {
	return lower == nil || a.Upper == nil || r.Comparer.Compare(lower, a.Upper) <= 0
}

// reaches reports whether key, which is not before the beginning of a, belongs to a.
func (r *Reads) reaches(a *Range, key []byte) bool {
	if a.Upper == nil {
		return true
	}
	c := r.Comparer.Compare(key, a.Upper)
	return c < 0 || c == 0 && a.Closed
}

// extend makes a end where b does, if that is later.
func (r *Reads) extend(a, b *Range) {
	switch {
	case a.Upper == nil:
		return
	case b.Upper == nil:
		a.Upper = nil
		return
	}
	switch c := r.Comparer.Compare(b.Upper, a.Upper); {
	case c > 0:
		a.Upper, a.Closed = b.Upper, b.Closed
	case c == 0:
		a.Closed = a.Closed || b.Closed
	}
}

// Covers reports whether key was read, by itself or in a range. The set must be prepared.
func (r *Reads) Covers(key []byte) bool {
	if _, found := slices.BinarySearchFunc(r.keys, key, r.Comparer.Compare); found {
		return true
	}
	// The last range that begins at or before the key.
	i, found := slices.BinarySearchFunc(r.ranges, key, func(a Range, key []byte) int {
		if a.Lower == nil {
			return -1
		}
		return r.Comparer.Compare(a.Lower, key)
	})
	if found {
		return r.reaches(&r.ranges[i], key)
	}
	return i > 0 && r.reaches(&r.ranges[i-1], key)
}

// Conflict reports whether run has an entry above the sequence number start for something that
// was read. The set must be prepared.
func (r *Reads) Conflict(run base.Iterator, start uint64) (bool, error) {
	var seek []byte
	for _, key := range r.keys {
		seek = base.AppendInternalKey(seek[:0], key, base.MaxSeq, base.KindSeek)
		if run.SeekGE(seek) && r.newer(run.Key(), start) && r.Comparer.Compare(base.UserKey(run.Key()), key) == 0 {
			return true, nil
		}
		if err := run.Err(); err != nil {
			return false, err
		}
	}
	for i := range r.ranges {
		if found := r.conflictIn(run, &r.ranges[i], start, &seek); found || run.Err() != nil {
			return found, run.Err()
		}
	}
	return false, nil
}

// conflictIn is Conflict for one range.
func (r *Reads) conflictIn(run base.Iterator, a *Range, start uint64, seek *[]byte) bool {
	ok := false
	if a.Lower == nil {
		ok = run.First()
	} else {
		*seek = base.AppendInternalKey((*seek)[:0], a.Lower, base.MaxSeq, base.KindSeek)
		ok = run.SeekGE(*seek)
	}
	for ; ok; ok = run.Next() {
		if !r.reaches(a, base.UserKey(run.Key())) {
			return false
		}
		if r.newer(run.Key(), start) {
			return true
		}
	}
	return false
}

// newer reports whether an internal key was written after start.
func (r *Reads) newer(ikey []byte, start uint64) bool {
	seq, _ := base.SplitTrailer(base.Trailer(ikey))
	return seq > start
}
