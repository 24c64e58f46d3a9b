package sstable

import (
	"slices"
	"unsafe"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/base/hugepages"
)

// openFilter reads the metaindex and, of the filters that it lists, the best one that is known and sound. Corruption
// goes into the status. An I/O error is returned, since the file may be sound.
func (r *Reader) openFilter() error {
	m, err := r.readMetaindex()
	if err != nil {
		if errors.Is(err, base.ErrNewer) { // it may require what is unknown
			return err
		}
		r.status = FilterStatus{State: FilterDamaged, Err: err}
		return onlyIO(err)
	}
	r.meta, r.marks = m.metaHandles, m.marks
	r.metaStart = m.start(r.limit, r.metaStart)
	r.status = r.withoutFilter(&m)
	if r.ranges, err = r.readRanges(&m, r.rangePolicies); err != nil {
		return err
	}
	return r.eachFilter(&m, r.policies, func(f *filterBlock, name string, err error) (more bool) {
		switch {
		case err != nil:
			if r.status.Err == nil { // the best one's
				r.status = FilterStatus{State: FilterDamaged, Policy: name, Damaged: name, Err: err}
			}
			return true
		case !f.understood():
			if r.status.Err == nil {
				r.status = FilterStatus{State: FilterUnknown, Policy: name}
			}
			return true
		}
		r.filter = f
		hugepages.Count(f.data)
		r.status = FilterStatus{State: FilterPerBlock, Policy: name, Damaged: r.status.Damaged, Err: r.status.Err}
		if f.whole {
			r.status.State = FilterWholeTable
			r.lines, r.hasLines = filter.AsCacheLineProbe(f.probe)
			r.lineSlot = uint8(f.slot)
		}
		return false
	})
}

func (r *Reader) readMetaindex() (metaindex, error) {
	data, err := r.readBlock(r.foot.Metaindex, "metaindex block")
	if err != nil {
		return metaindex{}, err
	}
	m, err := decodeMetaindex(data)
	return m, base.InFile(err, r.name, int64(r.foot.Metaindex.Offset))
}

// withoutFilter returns the status of a table of which no filter is used.
func (r *Reader) withoutFilter(m *metaindex) FilterStatus {
	switch {
	case !slices.ContainsFunc(r.policies, func(p filter.Policy) bool { return p != nil && p != filter.None }):
		return FilterStatus{State: FilterOff}
	case len(m.filters) == 0:
		return FilterStatus{State: FilterMissing}
	}
	return FilterStatus{State: FilterUnknown, Policy: m.lastFilter}
}

// eachFilter calls fn for each filter of the table that is of one of the policies, the
// best first, until fn returns false. fn gets the filter, or the reason why it is damaged.
// eachFilter returns the first error that is not corruption.
func (r *Reader) eachFilter(m *metaindex, policies []filter.Policy,
	fn func(f *filterBlock, name string, err error) (more bool)) error {
	for slot, p := range policies {
		if p == nil || p == filter.None {
			continue
		}
		h, ok := m.filters[p.Name()]
		if !ok {
			continue
		}
		f, err := r.readFilter(h, m, p, hashSlot(policies, slot))
		if ioErr := onlyIO(err); ioErr != nil {
			return ioErr
		}
		if !fn(f, p.Name(), err) {
			return nil
		}
	}
	return nil
}

// hashSlot returns the index at which a Lookup keeps its key's hash for policy i: that of
// the first policy with the same hash.
func hashSlot(policies []filter.Policy, i int) int {
	for first, p := range policies[:i] {
		if filter.SameHash(p, policies[i]) {
			return first
		}
	}
	return i
}

// readFilter reads the filter block at h, of policy p, whose hash is in that slot.
func (r *Reader) readFilter(h handle, m *metaindex, p filter.Policy, slot int) (*filterBlock, error) {
	const part = "filter block"
	if err := h.Check(r.limit, "metaindex block", part); err != nil {
		return nil, base.InFile(err, r.name, int64(r.foot.Metaindex.Offset))
	}
	r.opening.Need(h)
	data, err := r.readBlockInto(alignedBytes(int(h.Size)+blockTrailerLen), h, part)
	if err != nil {
		return nil, err
	}
	// Writers put the filters after the data blocks. If the properties say that a data
	// block follows this filter, the filter is not used for the whole table.
	endOfData := h.Offset
	if m.knowsLast && m.lastDataOffset < endOfData {
		endOfData = m.lastDataOffset + 1
	}
	f, err := newFilterBlock(data, p, slot, endOfData)
	return f, base.InFile(err, r.name, int64(h.Offset))
}

// cacheLineBytes is the cache line size of all known processors, or a multiple of it.
const cacheLineBytes = 64

// alignedBytes returns n zeros that begin at a multiple of cacheLineBytes in memory, so that each line of a filter is
// in one cache line. Go aligns allocations like that, except small or oddly sized ones.
func alignedBytes(n int) []byte {
	b := make([]byte, n)
	if misaligned(b) == 0 {
		return b
	}
	b = make([]byte, n+cacheLineBytes-1)
	skip := (cacheLineBytes - misaligned(b)) % cacheLineBytes
	return b[skip : skip+n : skip+n]
}

func misaligned(b []byte) int {
	return int(uintptr(unsafe.Pointer(unsafe.SliceData(b))) % cacheLineBytes)
}

// FilterSet is every filter of a table whose policy is known, for callers that check
// tables. Lookups use only the best one.
type FilterSet struct {
	filters []*filterBlock
	listed  int // filters of keys, including those of unknown policies
	ranges  []rangeFilter
	lookup  Lookup
	next    []byte // scratch
}

// AllFilters reads every filter of the table whose policy is known. If the metaindex or a filter is damaged, the error
// wraps sievedb.ErrCorruption, and the set has the other filters.
func (r *Reader) AllFilters() (FilterSet, error) {
	return r.filterSet(r.policies, false)
}

// FiltersToCheck is AllFilters with these policies for filters of keys, at most MaxPolicies, instead of those in
// ReaderOptions. It also reads the range filters of every policy in package rangefilter.
func (r *Reader) FiltersToCheck(policies []filter.Policy) (FilterSet, error) {
	return r.filterSet(policies, true)
}

func (r *Reader) filterSet(policies []filter.Policy, everyRange bool) (FilterSet, error) {
	if !r.Ref() {
		return FilterSet{}, ErrReaderClosed
	}
	defer r.Unref()
	m, err := r.readMetaindex()
	if err != nil {
		return FilterSet{}, err
	}
	set := FilterSet{listed: len(m.filters)}
	rangePolicies, damage := r.rangePolicies, error(nil)
	if everyRange {
		rangePolicies, damage = r.rangesToCheck(&m)
	}
	err = r.eachFilter(&m, policies, func(f *filterBlock, _ string, err error) bool {
		if err == nil {
			set.filters = append(set.filters, f)
		} else if damage == nil {
			damage = err
		}
		return true
	})
	if err != nil {
		return FilterSet{}, err
	}
	if set.ranges, err = r.readRanges(&m, rangePolicies); err != nil {
		return FilterSet{}, err
	}
	for _, f := range set.ranges {
		if damage == nil && base.IsUnreadable(f.Err) {
			damage = f.Err
		}
	}
	return set, damage
}

// Listed returns how many filters of keys the table lists by name, including those of unknown policies.
func (s *FilterSet) Listed() int { return s.listed }

// Whole returns each filter, by the name of its policy. ok is false if one of them does not cover the
// whole table. The caller must not change the filters.
func (s *FilterSet) Whole() (filters map[string][]byte, ok bool) {
	filters = map[string][]byte{}
	for _, f := range s.filters {
		if !f.whole {
			return nil, false
		}
		filters[f.policy.Name()] = f.filter
	}
	return filters, true
}

// Bytes returns the size of the filter blocks of keys.
func (s *FilterSet) Bytes() (n uint64) {
	for _, f := range s.filters {
		n += uint64(len(f.data))
	}
	return n
}

// Denies reports whether one of the filters denies a user key of the data block
// at offset, and returns the name of that filter's policy.
func (s *FilterSet) Denies(userKey []byte, offset uint64) (policy string, denied bool) {
	s.lookup.Init(userKey, base.MaxSeq)
	for _, f := range s.filters {
		may := true
		if f.whole {
			may = f.mayContain(&s.lookup)
		} else {
			may, _ = f.mayContainAt(&s.lookup, offset)
		}
		if !may {
			return f.policy.Name(), true
		}
	}
	return s.rangesDeny(userKey)
}
