package bulk

import (
	"slices"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/internal/write/txn"
)

// Span is the keys in [Start, Limit); nil means no bound.
type Span struct{ Start, Limit []byte }

// Spans is a set of keys: sorted spans that do not touch.
type Spans struct {
	cmp  *base.Comparer
	list []Span
}

// NewSpans returns the union of spans. Those whose start is not before their limit are empty.
func NewSpans(cmp *base.Comparer, spans []Span) Spans {
	s := Spans{cmp: cmp}
	spans = slices.DeleteFunc(slices.Clone(spans), func(a Span) bool {
		return a.Start != nil && a.Limit != nil && cmp.Compare(a.Start, a.Limit) >= 0
	})
	slices.SortFunc(spans, func(a, b Span) int {
		switch {
		case a.Start == nil && b.Start == nil:
			return 0
		case a.Start == nil:
			return -1
		case b.Start == nil:
			return 1
		}
		return cmp.Compare(a.Start, b.Start)
	})
	for _, a := range spans {
		n := len(s.list)
		if n == 0 || !s.touches(&s.list[n-1], a.Start) {
			s.list = append(s.list, a)
			continue
		}
		if last := &s.list[n-1]; last.Limit != nil && (a.Limit == nil || cmp.Compare(a.Limit, last.Limit) > 0) {
			last.Limit = a.Limit
		}
	}
	return s
}

// touches reports whether no key lies between a and start, which is not before a.
func (s Spans) touches(a *Span, start []byte) bool {
	return start == nil || a.Limit == nil || s.cmp.Compare(start, a.Limit) <= 0
}

// Empty reports whether there is no key in the set.
func (s Spans) Empty() bool { return len(s.list) == 0 }

// All returns the spans in ascending order.
func (s Spans) All() []Span { return s.list }

// find returns the span that has key, or nil.
func (s Spans) find(key []byte) *Span {
	// The first span that ends after key.
	i, _ := slices.BinarySearchFunc(s.list, key, func(a Span, key []byte) int {
		if a.Limit == nil || s.cmp.Compare(a.Limit, key) > 0 {
			return 1
		}
		return -1
	})
	if i < len(s.list) && (s.list[i].Start == nil || s.cmp.Compare(s.list[i].Start, key) <= 0) {
		return &s.list[i]
	}
	return nil
}

// Contains reports whether key is in the set.
func (s Spans) Contains(key []byte) bool { return s.find(key) != nil }

// Encloses reports whether all keys of a table are in one span.
func (s Spans) Encloses(f *version.FileMeta) bool {
	a := s.find(base.UserKey(f.Smallest))
	return a != nil && (a.Limit == nil || s.cmp.Compare(base.UserKey(f.Largest), a.Limit) < 0)
}

// hulls returns, for each span that encloses some of the tables, the smallest range that has all their keys.
func (s Spans) hulls(files []*version.FileMeta) (ranges []txn.Range) {
	at := map[*Span]int{}
	for _, f := range files {
		a := txn.RangeOf(f)
		span := s.find(a.Lower)
		i, known := at[span]
		if !known {
			at[span], ranges = len(ranges), append(ranges, a)
			continue
		}
		hull := &ranges[i]
		if s.cmp.Compare(a.Lower, hull.Lower) < 0 {
			hull.Lower = a.Lower
		}
		if s.cmp.Compare(a.Upper, hull.Upper) > 0 {
			hull.Upper = a.Upper
		}
	}
	return ranges
}

// Within returns the tables of a level that may have keys in the set, in the level's order.
func (s Spans) Within(v *version.Version, level int) (files []*version.FileMeta) {
	if level == 0 {
		for _, f := range v.Levels[0].Files {
			if slices.ContainsFunc(s.list, func(a Span) bool { return s.meets(f, a) }) {
				files = append(files, f)
			}
		}
		return files
	}
	for _, a := range s.list {
		for _, f := range v.Within(level, a.Start, a.Limit) {
			if n := len(files); n == 0 || files[n-1] != f { // a table may reach into two spans
				files = append(files, f)
			}
		}
	}
	return files
}

// meets reports whether f may have keys in a.
func (s Spans) meets(f *version.FileMeta, a Span) bool {
	return (a.Limit == nil || s.cmp.Compare(base.UserKey(f.Smallest), a.Limit) < 0) &&
		(a.Start == nil || s.cmp.Compare(base.UserKey(f.Largest), a.Start) >= 0)
}

// AnyTable reports whether all keys of some table of v are in the set.
func (s Spans) AnyTable(v *version.Version) bool {
	for level := range v.Levels {
		if slices.ContainsFunc(s.Within(v, level), s.Encloses) {
			return true
		}
	}
	return false
}
