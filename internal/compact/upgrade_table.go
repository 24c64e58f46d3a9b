package compact

import (
	"encoding/binary"
	"math"

	"github.com/sievedb/sievedb/internal/errors"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/filterplan"
	"github.com/sievedb/sievedb/internal/manifest"
	"github.com/sievedb/sievedb/sstable"
)

// look says whether a table needs new filters.
func (u *upgrade) look(level int, f *manifest.FileMeta) tableState {
	if state := u.known[f]; state != 0 {
		return state
	}
	state, err := u.inspect(level, f)
	if err != nil {
		state = tableDamaged
		if errors.Is(err, base.ErrCorruption) {
			u.damaged(f, err)
		} else { // the file may be sound
			u.failed = err
		}
	}
	if state == tableCurrent {
		u.report.Current++
	}
	u.known[f] = state
	return state
}

// damaged counts a table, which no figures are of any more.
func (u *upgrade) damaged(f *manifest.FileMeta, err error) {
	u.report.Damaged++
	if figures, ok := u.figures[f]; ok {
		u.levels[figures.level].add(figures, -1)
		delete(u.figures, f)
	}
	if u.damage == nil {
		u.damage = err
	}
}

// inspect is look for a table that was not seen yet. The error is about the file.
func (u *upgrade) inspect(level int, f *manifest.FileMeta) (tableState, error) {
	r, err := u.s.o.Cache.Ref(f)
	if err != nil {
		return 0, err
	}
	defer r.Unref()
	keys, exact, err := keysOf(r, f.Size)
	if err != nil {
		return 0, err
	}
	filters, err := r.AllFilters()
	sizes, whole := filters.Whole()
	low, high := u.policies(level)
	want := u.filtersOf(low, keys)
	known := whole && (len(sizes) > 0 || filters.Listed() == 0) // a store without filters knows none
	if err == nil && known && keys > 0 && filters.HasRanges(u.tables.RangeFilters) &&
		(u.same(sizes, want, exact) || u.same(sizes, u.filtersOf(high, keys), exact)) {
		rate := rateOf(r)
		u.note(f, tableFigures{level, filters.Bytes(), filters.Bytes(), rate, rate})
		return tableCurrent, nil
	}
	if err != nil && !errors.Is(err, base.ErrCorruption) { // a damaged filter is a reason the more
		return 0, err
	}
	bytesAfter, rateAfter := u.expect(level, keys)
	u.note(f, tableFigures{level, filters.Bytes(), bytesAfter, rateOf(r), rateAfter})
	return tableStale, nil
}

// expect returns what the new filters of so many keys will take, and their rate: in the mean
// where some tables of the level get one bit a key more than others.
func (u *upgrade) expect(level int, keys uint64) (bytes uint64, rate float64) {
	low, high := u.policies(level)
	part := 0.0 // of the tables with the higher number
	if u.bits != nil {
		part = float64(u.bits[level]) - float64(low)
	}
	few, many := u.filtersOf(low, keys), u.filtersOf(high, keys)
	bytes = uint64((1-part)*bytesOfMade(few) + part*bytesOfMade(many))
	return bytes, (1-part)*rateOfMade(few) + part*rateOfMade(many)
}

// count notes what table num has that took the place of f, instead of what was expected.
func (u *upgrade) count(f *manifest.FileMeta, num uint64, made madeTable) {
	figures, bits := u.figures[f], uint64(0)
	if u.bits != nil {
		bits = uint64(u.bits[figures.level].Of(num))
	}
	rate := rateOfMade(u.filtersOf(bits, made.keys))
	u.levels[figures.level].after += rate - figures.rateAfter
	figures.bytesAfter, figures.rateAfter = made.filterBytes, rate
	u.figures[f] = figures
}

func (u *upgrade) note(f *manifest.FileMeta, figures tableFigures) {
	u.figures[f] = figures
	u.levels[figures.level].add(figures, 1)
}

// same reports whether a table's filters are those of the policy, and no others: the names, and the
// sizes where they tell the bits a key. Of a number of keys that is not exact sizes tell nothing, and
// only to want none needs no number.
func (u *upgrade) same(sizes map[string]int, want []madeFilter, exact bool) bool {
	if len(want) > 0 && !exact {
		return false
	}
	names := map[string]madeFilter{}
	for _, m := range want {
		names[m.name] = m
		if alias := u.tables.FilterAliases[m.name]; alias != "" {
			names[alias] = m
		}
	}
	for name, m := range names {
		if size, ok := sizes[name]; !ok || m.exact && size != m.bytes {
			return false
		}
	}
	return len(sizes) == len(names)
}

// keysOf returns how many user keys a table has: exactly, if its writer noted it, else as
// many entries as its first block has, in each. It is never more than the file has bytes:
// a file may say anything, and filters of so many keys are made to learn their sizes.
func keysOf(r *sstable.Reader, fileSize uint64) (keys uint64, exact bool, err error) {
	if p, ok := r.Properties(); ok && p.FilterKeys > 0 {
		return min(p.FilterKeys, fileSize), p.FilterKeys <= fileSize, nil
	}
	blocks, _, err := r.DataBlocks()
	if err == nil {
		err = r.SampleBlocks(1, func(uint64, []byte) error { keys++; return nil })
	}
	return min(keys*uint64(blocks), fileSize), false, err
}

// policies returns the policies for tables of a level, by their bits a key: under a budget some tables
// get one bit more than others.
func (u *upgrade) policies(level int) (low, high uint64) {
	if u.bits == nil {
		return 0, 0
	}
	bits := float64(u.bits[level])
	return uint64(bits), uint64(math.Ceil(bits))
}

// filtersOf returns what the policy makes of so many keys, whatever they are.
func (u *upgrade) filtersOf(bits, keys uint64) []madeFilter {
	of := madeOf{bits, keys}
	if made, ok := u.made[of]; ok || keys == 0 {
		return made
	}
	policy := u.policy
	if u.bits != nil {
		policy = filterplan.Bits(bits).Policy(policy, 0)
	}
	kinds := filter.Kinds(policy)
	made := make([]madeFilter, len(kinds))
	for i, p := range kinds {
		if bloom, ok := p.(filter.BloomPolicy); ok {
			made[i] = madeFilter{name: p.Name(), bytes: int(bloom.FilterBytes(keys)), exact: true, rate: -1}
			if i == 0 { // the one that lookups ask: for LevelDB's layout this takes as long as opening a table
				made[i].rate = bloom.PredictedRate(keys)
			}
		} else {
			made[i] = madeOfNumbers(p, keys)
		}
	}
	u.made[of] = made
	return made
}

// shapeSampleKeys is how many keys a filter is made of to see what it is like; one of more keys takes
// as much for each. The number of keys is the file's word: filters of as many as it may claim
// would take a multiple of its size.
const shapeSampleKeys = 1 << 16

// madeOfNumbers has p make a filter to see what it is like.
func madeOfNumbers(p filter.Policy, keys uint64) madeFilter {
	n := min(keys, shapeSampleKeys)
	arena, all := make([]byte, 0, 8*n), make([][]byte, n)
	for i := range all {
		arena = binary.BigEndian.AppendUint64(arena, uint64(i))
		all[i] = arena[8*i:]
	}
	b := p.CreateFilter(nil, all)
	size := float64(len(b)) / float64(n) * float64(keys)
	made := madeFilter{name: p.Name(), bytes: int(size), rate: -1} // LegacyBloom's may be twice as large, by the keys
	if s, ok := filter.ShapeOf(p, b); ok {
		made.rate = s.PredictedRate(n)
	}
	return made
}

// rateOf is the rate of false positives to expect of a table.
func rateOf(r *sstable.Reader) float64 {
	if r.FilterSize() == 0 {
		return 1
	}
	if p := r.FilterFigures().Predicted; p >= 0 {
		return p
	}
	return 1
}

// bytesOfMade is what the filter blocks take.
func bytesOfMade(made []madeFilter) (bytes float64) {
	for _, m := range made {
		bytes += float64(m.bytes + sstable.FilterEnvelopeLen)
	}
	return bytes
}

// rateOfMade is that of the filters that it shall have; lookups ask the first.
func rateOfMade(made []madeFilter) float64 {
	if len(made) == 0 || made[0].rate < 0 {
		return 1
	}
	return made[0].rate
}
