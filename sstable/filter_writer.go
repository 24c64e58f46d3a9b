package sstable

import (
	"math"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/base/errors"
)

// namedFilter is a filter block and the name of its policy.
type namedFilter struct {
	name  string
	block []byte
}

// filterBlocks makes the table's filter blocks, the best one first. A table without keys has none.
func (w *Writer) filterBlocks() (blocks []namedFilter, err error) {
	if err := CheckFilterNames(filter.Kinds(w.opts.Filter)); err != nil {
		return nil, w.fail(errors.Wrap(err, "sstable"))
	}
	for i := range w.filters {
		f := &w.filters[i]
		if f.keys == 0 {
			continue
		}
		block, err := f.block(w.lastOffset)
		if err != nil {
			return nil, w.fail(err)
		}
		blocks = append(blocks, namedFilter{f.policy.Name(), block})
	}
	return blocks, nil
}

// writeFilters writes the filter blocks and lists them in the metaindex.
func (w *Writer) writeFilters(filters []namedFilter, meta metaEntries) error {
	for _, f := range filters {
		// Raw, as LevelDB writes it: random bits do not shrink.
		if err := w.writeListed(meta, filterKeyPrefix+f.name, f.block); err != nil {
			return err
		}
	}
	for _, f := range filters {
		alias := w.opts.FilterAliases[f.name]
		if _, taken := meta[filterKeyPrefix+alias]; alias != "" && !taken {
			meta[filterKeyPrefix+alias] = meta[filterKeyPrefix+f.name]
		}
	}
	return nil
}

// tableFilter collects the user keys of a table for its filter. If the policy has a
// generator, it needs no keys in memory; otherwise it copies them.
type tableFilter struct {
	policy filter.Policy
	gen    filter.Generator
	keys   int
	arena  []byte
	ends   []int
	made   []byte // the filter block, kept to reuse its memory
}

// reset drops the keys. A generator has dropped them when it made its filter.
func (f *tableFilter) reset() { f.keys, f.arena, f.ends = 0, f.arena[:0], f.ends[:0] }

// newTableFilters returns a tableFilter for each kind of filter in p.
func newTableFilters(p filter.Policy) (filters []tableFilter) {
	for _, kind := range filter.Kinds(p) {
		filters = append(filters, newTableFilter(kind))
	}
	return filters
}

func newTableFilter(p filter.Policy) tableFilter {
	f := tableFilter{policy: p}
	if p, ok := p.(filter.GeneratorPolicy); ok {
		gen := p.NewGenerator()
		if _, checks := gen.(filter.CheckedGenerator); checks {
			f.gen = gen
		}
	}
	return f
}

func (f *tableFilter) add(userKey []byte) {
	if f.gen != nil {
		f.gen.Add(userKey)
	} else {
		f.arena = append(f.arena, userKey...)
		f.ends = append(f.ends, len(f.arena))
	}
	f.keys++
}

// block returns the filter block, which is valid until reset. There must be a key.
func (f *tableFilter) block(lastOffset uint64) ([]byte, error) {
	b, denied := f.make()
	if denied > 0 {
		return nil, errors.Newf("sstable: the new filter %q denies %d of its %d keys; the table is not written, "+
			"since the policy or the machine's memory is defective", f.policy.Name(), denied, f.keys)
	}
	if uint64(len(b)) > math.MaxUint32-16 {
		return nil, errors.Newf("sstable: the filter has %d bytes; at most %d are supported", len(b), uint32(math.MaxUint32-16))
	}
	f.made = appendFilterEnvelope(b, lastOffset)
	return f.made, nil
}

// make returns the filter and how many of its keys it denies.
func (f *tableFilter) make() (b []byte, denied int) {
	if f.gen != nil {
		return f.gen.(filter.CheckedGenerator).AppendChecked(f.made[:0])
	}
	keys := make([][]byte, len(f.ends))
	start := 0
	for i, end := range f.ends {
		keys[i] = f.arena[start:end:end]
		start = end
	}
	b = f.policy.CreateFilter(f.made[:0], keys)
	for _, key := range keys {
		if !f.policy.KeyMayMatch(key, b) {
			denied++
		}
	}
	return b, denied
}
