package sstable

import (
	"maps"
	"slices"

	"github.com/sievedb/sievedb/filter/rangefilter"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
)

// Range filters are stored after the filters of keys, each in a separate block without an envelope, and each covers the
// whole table. The metaindex lists them under names that no policy of filters of keys has:
//
//	filter.sievedb.range.<name of the policy> -> handle

// tableRange makes one range filter of a table that is being written.
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

// addToFilters adds a user key to all filters of the table.
func (w *Writer) addToFilters(userKey []byte) {
	for i := range w.filters {
		w.filters[i].add(userKey)
	}
	for i := range w.ranges {
		w.ranges[i].gen.Add(userKey)
	}
}

// writeRanges writes the range filters and lists them in the metaindex. A table without entries has none.
func (w *Writer) writeRanges(meta metaEntries) error {
	if w.props.Entries == 0 {
		return nil
	}
	for _, f := range w.ranges {
		block, denied := f.gen.AppendChecked(nil)
		if denied > 0 {
			return w.fail(errors.Newf("sstable: the new range filter %q denies %d of its keys; the table is not written, "+
				"since the policy or the machine's memory is defective", f.policy.Name(), denied))
		}
		if err := w.writeListed(meta, rangeKeyPrefix+f.policy.Name(), block); err != nil {
			return err
		}
		w.rangeSize += uint64(len(block)) + blockTrailerLen
	}
	return nil
}

// RangeFilter describes a range filter, for metrics and tools.
type RangeFilter struct {
	Policy string // its name as stored in the file: quote it
	Bytes  uint64
	// Err is the reason why the filter is not used, or nil if it is. It wraps sievedb.ErrCorruption if the filter is
	// damaged. It is ErrRangeUnknown or another error if the filter's policy or version is unknown.
	Err error
}

// rangeFilter is a range filter and its probe, which is nil if the filter is not used.
type rangeFilter struct {
	RangeFilter
	probe rangefilter.Probe
}

// ErrRangeUnknown is the Err of range filters whose policy is not in ReaderOptions.RangePolicies.
var ErrRangeUnknown = errors.New("sievedb: no policy of that name is configured")

// errRangeVersion is the Err of range filters that their policy cannot read.
var errRangeVersion = errors.New("sievedb: the filter has an unknown version")

// readRanges reads the range filters of known policies, and lists the others after them.
// A damaged one rules nothing out. The error is never corruption.
func (r *Reader) readRanges(m *metaindex, policies []rangefilter.Policy) (ranges []rangeFilter, err error) {
	for _, p := range policies {
		h, ok := m.ranges[p.Name()]
		if !ok {
			continue
		}
		f := rangeFilter{RangeFilter: RangeFilter{Policy: p.Name(), Bytes: h.Size}}
		b, err := r.readRange(h)
		switch {
		case err == nil:
			if f.probe, ok = p.NewProbe(b); !ok {
				f.probe, f.Err = nil, errRangeVersion
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
			ranges = append(ranges, rangeFilter{RangeFilter: RangeFilter{name, m.ranges[name].Size, ErrRangeUnknown}})
		}
	}
	return ranges, nil
}

// MaxRangePolicies is the largest number of range filters of a table.
const MaxRangePolicies = 4

// rangesToCheck returns the policies of the range filters that the table lists, if they are
// configured or known by name. It limits the latter: there are infinitely many known names,
// so a table could list one large block under thousands of them.
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
		const bits = 10 // of new filters; existing ones can be read with any value
		p, err := rangefilter.PolicyNamed(name, bits)
		if err != nil {
			continue
		}
		if len(policies) == MaxRangePolicies {
			err := base.Corruptf("metaindex block", -1, "it lists too many range filters of known policies; want at most %d",
				MaxRangePolicies)
			return policies, base.InFile(err, r.name, int64(r.foot.Metaindex.Offset))
		}
		policies = append(policies, p)
	}
	return policies, nil
}

func (r *Reader) readRange(h handle) ([]byte, error) {
	const part = "range filter block"
	if err := h.Check(r.limit, "metaindex block", part); err != nil {
		return nil, base.InFile(err, r.name, int64(r.foot.Metaindex.Offset))
	}
	r.opening.Need(h)
	return r.readBlockInto(alignedBytes(int(h.Size)+blockTrailerLen), h, part)
}

// RangeMayMatch reports whether the table may hold an entry, possibly a tombstone, of a user key k with lower <= k <
// upper. consulted reports whether a filter was consulted. It reads nothing from disk.
func (r *Reader) RangeMayMatch(lower, upper []byte) (may, consulted bool) {
	for i := range r.ranges {
		if p := r.ranges[i].probe; p != nil {
			consulted = true
			if !p.MayMatch(lower, upper) {
				return false, true
			}
		}
	}
	return true, consulted
}

// RangeFilters returns the table's range filters, those of known policies first.
func (r *Reader) RangeFilters() (filters []RangeFilter) {
	for _, f := range r.ranges {
		filters = append(filters, f.RangeFilter)
	}
	return filters
}

// RangeFilterSize returns the memory that range filters pin, in bytes.
func (r *Reader) RangeFilterSize() (size uint64) {
	for _, f := range r.ranges {
		if f.probe != nil {
			size += f.Bytes + blockTrailerLen
		}
	}
	return size
}

// HasRanges reports whether there is, for each of the policies, a usable range filter with
// the policy's bits (rangefilter.SameBits).
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

// rangesDeny reports whether a range filter denies the range that has only userKey.
func (s *FilterSet) rangesDeny(userKey []byte) (policy string, denied bool) {
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
