package tables

import (
	"sync/atomic"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/internal/limit/cache"
	"github.com/sievedb/sievedb/sstable"
)

// Table is the data of the open-table cache about a table while the store runs. It is
// the Handle of the table's FileMeta. All fields may be used at any time.
type Table struct {
	// reader is the open table.
	reader cache.Slot[*sstable.Reader]
	// Sampled counts the verdicts of the table's filter for a sample of the lookups.
	Sampled SampledVerdicts
	// sizes is nil until the table is written, or opened by a cache that wants them.
	sizes atomic.Pointer[FilterSizes]
	// refs is what the table refers to, from its writing until the edit that adds it is counted.
	refs atomic.Pointer[[]base.RefSum]
	// ids are the IDs of a value table. It is nil until the table is opened, and if they cannot be read.
	ids atomic.Pointer[[]uint64]
	// filterReported is set once the table's filter was reported as unusable.
	filterReported atomic.Bool
}

// FilterSizes are the number of a table's distinct user keys, possibly estimated, the bytes of the filter that lookups
// use, 0 if there is none, and the bytes of its range filters.
type FilterSizes struct {
	Keys, FilterBytes, RangeBytes uint64
}

// SampledVerdicts count the verdicts of a table's filter: keys that it denied, keys that it passed and that the table
// holds, and absent keys that it passed. A table without a filter passes every key.
type SampledVerdicts struct {
	Negatives, TruePositives, FalsePositives atomic.Uint64
}

// Peek returns the open reader of the table, or nil if it is not open. It does not count as
// a use of the table, and the reader may be closed at any time.
func (t *Table) Peek() *sstable.Reader {
	if r := t.reader.Peek(); r != nil {
		return *r
	}
	return nil
}

// FilterSizes returns the sizes of the table's filters, or nil if they are not known.
func (t *Table) FilterSizes() *FilterSizes { return t.sizes.Load() }

// ReportFilter returns true on its first call. It makes the store report a table's unusable filter only once.
func (t *Table) ReportFilter() (first bool) { return !t.filterReported.Swap(true) }

// Of returns the Table of f.
func Of(f *version.FileMeta) *Table { return f.Handle.(*Table) }

// NewHandle returns a new Table. It is for version.Owner.NewHandle.
func NewHandle() any { return new(Table) }

// unknownKeyBytes is the assumed size of an entry in a table of unknown contents.
const unknownKeyBytes = 128

// HandleOf returns the handle of the table that w has finished.
func HandleOf(w *sstable.Writer) *Table {
	t := new(Table)
	t.sizes.Store(&FilterSizes{Keys: w.Entries(), FilterBytes: w.FilterSize(), RangeBytes: w.RangeFilterSize()})
	refs := w.Refs() // also none, so that the table need not be opened to find that out
	t.refs.Store(&refs)
	return t
}

// sizesOf returns the sizes of an open table.
func sizesOf(r *sstable.Reader, f *version.FileMeta) *FilterSizes {
	sizes := &FilterSizes{FilterBytes: r.FilterSize(), RangeBytes: r.RangeFilterSize()}
	if sizes.Keys = Keys(r, f); sizes.Keys == 0 {
		sizes.Keys = f.Size / unknownKeyBytes
	}
	return sizes
}

// Keys returns the number of a table's keys from its properties or else from its filter, or 0 if neither says. It is at
// most the number of the file's bytes, since the stored number cannot be trusted.
func Keys(r *sstable.Reader, f *version.FileMeta) (keys uint64) {
	if p, ok := r.Properties(); ok {
		keys = max(p.FilterKeys, p.Entries)
	} else {
		keys = r.FilterKeys()
	}
	return min(keys, f.Size)
}
