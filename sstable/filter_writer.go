package sstable

import (
	"math"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/errors"
)

// namedFilter is a filter block and the name of its policy.
type namedFilter struct {
	name  string
	block []byte
}

// filterBlocks makes the table's filter blocks, the best one first. A table
// without keys has none.
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
		h, err := w.writeBlock(f.block, NoCompression)
		if err != nil {
			return err
		}
		meta[filterKeyPrefix+f.name] = h.append(nil)
	}
	for _, f := range filters {
		alias := w.opts.FilterAliases[f.name]
		if _, taken := meta[filterKeyPrefix+alias]; alias != "" && !taken {
			meta[filterKeyPrefix+alias] = meta[filterKeyPrefix+f.name]
		}
	}
	return nil
}

// tableFilter gathers the user keys of a table for its filter: as a generator
// where the policy has one, which needs no keys in memory, else as they are.
type tableFilter struct {
	policy filter.Policy
	gen    filter.Generator
	keys   int
	arena  []byte
	ends   []int
	made   []byte // the filter block, kept for its room
}

// reset forgets the keys. A generator has forgotten them with its filter.
func (f *tableFilter) reset() { f.keys, f.arena, f.ends = 0, f.arena[:0], f.ends[:0] }

// newTableFilters returns one for each kind of filter that p stands for.
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

// block returns the filter block, valid until reset; it needs a key at least.
func (f *tableFilter) block(lastOffset uint64) ([]byte, error) {
	b, denied := f.make()
	if denied > 0 {
		return nil, errors.Newf("sstable: the filter %q, just made of %d keys, denies %d of them: "+
			"the policy has a defect, or the machine's memory has; the table is not written", f.policy.Name(), f.keys, denied)
	}
	if uint64(len(b)) > math.MaxUint32-16 {
		return nil, errors.Newf("sstable: a filter of %d bytes; the format counts them with 32 bits", len(b))
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
