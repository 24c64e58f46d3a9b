package tables

import (
	"sync/atomic"

	"github.com/sievedb/sievedb/internal/cache"
	"github.com/sievedb/sievedb/internal/manifest"
	"github.com/sievedb/sievedb/sstable"
)

// Table is what the open-table cache keeps of a table while the store runs. It is
// the Handle of the table's FileMeta. All fields may be used at any time.
type Table struct {
	// reader is the open table.
	reader cache.Slot[*sstable.Reader]
	// sampled counts the verdicts of the table's filter for a sample of the lookups.
	Sampled SampledVerdicts
	// sizes is nil until the table is written, or opened by a cache that wants them.
	sizes atomic.Pointer[FilterSizes]
	// filterReported is set once the table's filter was reported as unusable.
	filterReported atomic.Bool
}

// FilterSizes are a table's distinct user keys, perhaps estimated, the bytes of the
// filter that lookups ask, 0 without one, and the bytes of its range filters.
type FilterSizes struct {
	Keys, FilterBytes, RangeBytes uint64
}

// SampledVerdicts count the verdicts of a table's filter: it denied the key, it passed a
// key that the table holds, it passed a key that the table does not hold. A table
// without a filter passes every key.
type SampledVerdicts struct {
	Negatives, TruePositives, FalsePositives atomic.Uint64
}

// Peek returns the open reader of the table, nil if it is not open. It does not count as a
// use of the table, and the reader may be closed at any time.
func (t *Table) Peek() *sstable.Reader {
	if r := t.reader.Peek(); r != nil {
		return *r
	}
	return nil
}

// FilterSizes returns the sizes of the table's filters, nil if they are not known.
func (t *Table) FilterSizes() *FilterSizes { return t.sizes.Load() }

// ReportFilter reports whether this is the first call: a table's filter is reported as
// unusable once.
func (t *Table) ReportFilter() (first bool) { return !t.filterReported.Swap(true) }

// Of returns what is kept of f.
func Of(f *manifest.FileMeta) *Table { return f.Handle.(*Table) }

// NewHandle is manifest.SetOptions.NewHandle.
func NewHandle() any { return new(Table) }

// unknownKeyBytes is what an entry takes in a table of which nothing is known.
const unknownKeyBytes = 128

// HandleOf returns the handle of the table that w has finished.
func HandleOf(w *sstable.Writer) *Table {
	t := new(Table)
	t.sizes.Store(&FilterSizes{Keys: w.Entries(), FilterBytes: w.FilterSize(), RangeBytes: w.RangeFilterSize()})
	return t
}

// sizesOf returns the sizes of an open table.
func sizesOf(r *sstable.Reader, f *manifest.FileMeta) *FilterSizes {
	sizes := &FilterSizes{FilterBytes: r.FilterSize(), RangeBytes: r.RangeFilterSize()}
	if sizes.Keys = Keys(r, f); sizes.Keys == 0 {
		sizes.Keys = f.Size / unknownKeyBytes
	}
	return sizes
}

// Keys returns how many keys a table has, as its properties say, or else its filter; 0
// if neither does. It is never more than the file has bytes: the table may say anything.
func Keys(r *sstable.Reader, f *manifest.FileMeta) (keys uint64) {
	if p, ok := r.Properties(); ok {
		keys = max(p.FilterKeys, p.Entries)
	} else {
		keys = r.FilterKeys()
	}
	return min(keys, f.Size)
}
