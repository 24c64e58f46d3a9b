package sstable

import (
	"maps"
	"slices"

	"github.com/sievedb/sievedb/filter/rangefilter"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/errors"
)

// Filters of ranges stand behind the filters of keys, each in a block of its own
// without an envelope, and always for the whole table. The metaindex lists them under names
// that no policy of filters of keys has:
//
//	filter.sievedb.range.<name of the policy> -> handle

// tableRange makes one filter of ranges of a table that is being written.
type tableRange struct {
	policy rangefilter.Policy
	gen    rangefilter.Generator
}

func newTableRanges(policies []rangefilter.Policy) (ranges []tableRange) {
	for _, p := range policies {
		ranges = append(ranges, tableRange{p, p.NewGenerator()})
	}
	return ranges
}

// addToFilters gives a user key of the table to all its filters.
func (w *Writer) addToFilters(userKey []byte) {
	for i := range w.filters {
		w.filters[i].add(userKey)
	}
	for i := range w.ranges {
		w.ranges[i].gen.Add(userKey)
	}
}

// writeRanges writes the filters of ranges and lists them in the metaindex. A table without
// entries has none.
func (w *Writer) writeRanges(meta metaEntries) error {
	if w.props.Entries == 0 {
		return nil
	}
	for _, f := range w.ranges {
		block, denied := f.gen.AppendChecked(nil)
		if denied > 0 {
			return w.fail(errors.Newf("sstable: the range filter %q, just made, denies %d of its keys: "+
				"the policy has a defect, or the machine's memory has; the table is not written", f.policy.Name(), denied))
		}
		h, err := w.writeBlock(block, NoCompression)
		if err != nil {
			return err
		}
		meta[rangeKeyPrefix+f.policy.Name()] = h.append(nil)
		w.rangeSize += h.size + blockTrailerLen
	}
	return nil
}

// RangeFilter describes a filter of ranges, for metrics and tools.
type RangeFilter struct {
	Policy string // its name, as it stands in the file: quote it
	Bytes  uint64
	// Err is why it is not asked: it wraps sievedb.ErrCorruption where it is damaged, is
	// ErrRangeUnknown or another one where nobody here knows it, and nil for one that is
	// asked.
	Err error
}

// rangeFilter is one as it is asked; probe is nil where it is not.
type rangeFilter struct {
	RangeFilter
	probe rangefilter.Probe
}

// ErrRangeUnknown says that a filter of ranges is of none of ReaderOptions.RangePolicies.
var ErrRangeUnknown = errors.New("sievedb: no policy of that name is configured")

// errRangeDialect says that a policy does not know a filter of its own name.
var errRangeDialect = errors.New("sievedb: the filter is of a version that is not known here")

// readRanges reads the filters of ranges that are known, and lists the others behind them.
// A damaged one rules nothing out; the error is one that is not corruption.
func (r *Reader) readRanges(m *metaindex, policies []rangefilter.Policy) (ranges []rangeFilter, err error) {
	for _, p := range policies {
		h, ok := m.ranges[p.Name()]
		if !ok {
			continue
		}
		f := rangeFilter{RangeFilter: RangeFilter{Policy: p.Name(), Bytes: h.size}}
		b, err := r.readRange(h)
		switch {
		case err == nil:
			if f.probe, ok = p.NewProbe(b); !ok {
				f.probe, f.Err = nil, errRangeDialect
			}
		case onlyIO(err) != nil:
			return nil, err
		default:
			f.Err = err
		}
		ranges = append(ranges, f)
	}
	for _, name := range slices.Sorted(maps.Keys(m.ranges)) {
		if !slices.ContainsFunc(ranges, func(f rangeFilter) bool { return f.Policy == name }) {
			ranges = append(ranges, rangeFilter{RangeFilter: RangeFilter{name, m.ranges[name].size, ErrRangeUnknown}})
		}
	}
	return ranges, nil
}

// MaxRangePolicies is how many filters of ranges a table may have.
const MaxRangePolicies = 4

// rangesToCheck returns the policies of the filters of ranges that the table lists, as far as
// they are configured or known by their names. The names of the known ones are without
// number, so a table could list one large block under thousands of them.
func (r *Reader) rangesToCheck(m *metaindex) (policies []rangefilter.Policy, err error) {
	for _, p := range r.rangePolicies {
		if _, listed := m.ranges[p.Name()]; listed {
			policies = append(policies, p)
		}
	}
	if !r.cmp.IsBytewise() {
		return policies, nil
	}
	for _, name := range slices.Sorted(maps.Keys(m.ranges)) {
		if slices.ContainsFunc(policies, func(p rangefilter.Policy) bool { return p.Name() == name }) {
			continue
		}
		const bits = 10 // of new filters; old ones are read whatever it is
		p, err := rangefilter.PolicyNamed(name, bits)
		if err != nil {
			continue
		}
		if len(policies) == MaxRangePolicies {
			err := base.Corruptf("metaindex block", -1, "it lists more than %d filters of ranges of known kinds; want no more", MaxRangePolicies)
			return policies, base.InFile(err, r.name, int64(r.foot.metaindex.offset))
		}
		policies = append(policies, p)
	}
	return policies, nil
}

func (r *Reader) readRange(h handle) ([]byte, error) {
	const part = "range filter block"
	if err := h.check(r.limit, "metaindex block", part); err != nil {
		return nil, base.InFile(err, r.name, int64(r.foot.metaindex.offset))
	}
	r.opening.need(h)
	return r.readBlockInto(alignedBytes(int(h.size)+blockTrailerLen), h, part)
}

// RangeMayMatch reports whether the table may hold an entry of a user key k, lower <= k <
// upper, a tombstone included. asked is whether a filter was. It reads nothing.
func (r *Reader) RangeMayMatch(lower, upper []byte) (may, asked bool) {
	for i := range r.ranges {
		if p := r.ranges[i].probe; p != nil {
			if asked = true; !p.MayMatch(lower, upper) {
				return false, true
			}
		}
	}
	return true, asked
}

// RangeFilters returns those that the table has, the ones that are known first.
func (r *Reader) RangeFilters() (filters []RangeFilter) {
	for _, f := range r.ranges {
		filters = append(filters, f.RangeFilter)
	}
	return filters
}

// RangeFilterSize returns the bytes of memory that filters of ranges pin.
func (r *Reader) RangeFilterSize() (size uint64) {
	for _, f := range r.ranges {
		if f.probe != nil {
			size += f.Bytes + blockTrailerLen
		}
	}
	return size
}

// addRanges adds the filters of ranges to the set. The error is the first one's that
// is damaged.
func (s *FilterSet) addRanges(r *Reader, m *metaindex, policies []rangefilter.Policy) error {
	ranges, err := r.readRanges(m, policies)
	s.ranges = ranges
	for _, f := range ranges {
		if err == nil && errors.Is(f.Err, base.ErrCorruption) {
			err = f.Err
		}
	}
	return err
}

// HasRanges reports whether there is a filter of ranges of each of the policies that can be
// asked and has the policy's bits (rangefilter.SameBits).
func (s *FilterSet) HasRanges(policies []rangefilter.Policy) bool {
	for _, p := range policies {
		if !slices.ContainsFunc(s.ranges, func(f rangeFilter) bool {
			return f.Policy == p.Name() && f.probe != nil && rangefilter.SameBits(p, f.probe)
		}) {
			return false
		}
	}
	return true
}

// deniesAlone reports whether a filter of ranges denies the range of one user key.
func (s *FilterSet) deniesAlone(userKey []byte) (policy string, denied bool) {
	for _, f := range s.ranges {
		if f.probe == nil {
			continue
		}
		s.next = append(append(s.next[:0], userKey...), 0)
		if !f.probe.MayMatch(userKey, s.next) {
			return f.Policy, true
		}
	}
	return "", false
}
