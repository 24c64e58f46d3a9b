package txn

import (
	"encoding/binary"
	"slices"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/expiry"
)

// Reads is the set of keys and ranges that a transaction has read. The zero value with a comparer
// is empty. It is used by one goroutine at a time.
type Reads struct {
	Comparer *base.Comparer
	// Ends is when the first of the values that were read expires, 0 if none does. From then on a reader
	// sees something else, so the transaction must not be committed.
	Ends uint64

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

// AddRange records that the keys from lower to upper were read, and that there are no others. A nil bound
// means none. closed says that upper belongs to them. It copies the bounds.
func (r *Reads) AddRange(lower, upper []byte, closed bool) {
	a := Range{Closed: closed}
	if lower != nil {
		a.Lower = append([]byte{}, lower...)
	}
	if upper != nil {
		a.Upper = append([]byte{}, upper...)
	}
	r.ranges, r.merged = append(r.ranges, a), false
	if n := len(r.ranges); n >= compactRanges && n&(n-1) == 0 {
		r.merge()
	}
}

// AddEnd records the time at which a value that was read expires, expiry.Never for none.
func (r *Reads) AddEnd(ends uint64) { r.Ends = expiry.Earlier(r.Ends, ends) }

// Prepare sorts the set for Covers. It must be called after the last addition, and before concurrent calls.
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
	return r.find(r.ranges, key) >= 0
}

// find returns the place of the one of the ranges, which are sorted and do not overlap, that has key, or -1.
func (r *Reads) find(ranges []Range, key []byte) int {
	// The last range that begins at or before the key.
	i, found := slices.BinarySearchFunc(ranges, key, func(a Range, key []byte) int {
		if a.Lower == nil {
			return -1
		}
		return r.Comparer.Compare(a.Lower, key)
	})
	if !found {
		i--
	}
	if i < 0 || !r.reaches(&ranges[i], key) {
		return -1
	}
	return i
}

// Within returns the part of the set that lies in one of the ranges. Both are prepared; the part shares memory with r.
func (r *Reads) Within(ranges []Range) *Reads {
	w := &Reads{Comparer: r.Comparer, ranges: slices.Clone(ranges)}
	w.merge()
	limits := w.ranges
	w.ranges = nil
	for _, key := range r.keys {
		if i := r.find(limits, key); i >= 0 {
			w.keys = append(w.keys, key)
		}
	}
	for i, j := 0, 0; i < len(r.ranges) && j < len(limits); {
		a, b := &r.ranges[i], &limits[j]
		if part, ok := r.meet(a, b); ok {
			w.ranges = append(w.ranges, part)
		}
		if r.endsFirst(a, b) {
			i++
		} else {
			j++
		}
	}
	return w
}

// meet returns the part that two ranges have in common; ok is false if it is empty.
func (r *Reads) meet(a, b *Range) (part Range, ok bool) {
	part = *a
	if r.compareLower(b.Lower, a.Lower) > 0 {
		part.Lower = b.Lower
	}
	if r.endsFirst(b, a) {
		part.Upper, part.Closed = b.Upper, b.Closed
	}
	if part.Lower == nil || part.Upper == nil {
		return part, true
	}
	c := r.Comparer.Compare(part.Lower, part.Upper)
	return part, c < 0 || c == 0 && part.Closed
}

// endsFirst reports whether a ends before b does.
func (r *Reads) endsFirst(a, b *Range) bool {
	if a.Upper == nil || b.Upper == nil {
		return a.Upper != nil
	}
	c := r.Comparer.Compare(a.Upper, b.Upper)
	return c < 0 || c == 0 && !a.Closed && b.Closed
}

// Numbers are the sequence numbers from First to Last.
type Numbers struct{ First, Last uint64 }

// AnyNumber has all sequence numbers.
var AnyNumber = Numbers{0, base.MaxSeq}

// Conflict reports whether run has an entry with one of the sequence numbers for something that was
// read. The set must be prepared.
func (r *Reads) Conflict(run base.Iterator, n Numbers) (bool, error) {
	var seek []byte
	for _, key := range r.keys {
		seek = base.AppendInternalKey(seek[:0], key, n.Last, base.KindSeek)
		if run.SeekGE(seek) && n.has(run.Key()) && r.Comparer.Compare(base.UserKey(run.Key()), key) == 0 {
			return true, nil
		}
		if err := run.Err(); err != nil {
			return false, err
		}
	}
	for i := range r.ranges {
		if found := r.conflictIn(run, &r.ranges[i], n, &seek); found || run.Err() != nil {
			return found, run.Err()
		}
	}
	return false, nil
}

// conflictIn is Conflict for one range.
func (r *Reads) conflictIn(run base.Iterator, a *Range, n Numbers, seek *[]byte) bool {
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
		if n.has(run.Key()) {
			return true
		}
	}
	return false
}

// has reports whether an internal key has one of the numbers.
func (n Numbers) has(ikey []byte) bool {
	seq, _ := base.SplitTrailer(base.Trailer(ikey))
	return n.First <= seq && seq <= n.Last
}
