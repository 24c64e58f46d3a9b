package compact

import (
	"encoding/binary"
	"math"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/filterplan"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/sstable"
)

// look returns the state of a table: whether it needs new filters. It inspects a table once.
func (u *upgrade) look(level int, f *version.FileMeta) tableState {
	if state := u.known[f]; state != 0 {
		return state
	}
	state, err := u.inspect(level, f)
	if err != nil {
		state = tableDamaged
		if base.IsUnreadable(err) {
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

// damaged counts a damaged table and removes its figures.
func (u *upgrade) damaged(f *version.FileMeta, err error) {
	u.report.Damaged++
	if figures, ok := u.figures[f]; ok {
		u.levels[figures.level].add(figures, -1)
		delete(u.figures, f)
	}
	if u.damage == nil {
		u.damage = err
	}
}

// inspect is look for a table that has not been inspected yet. The error is about the file.
func (u *upgrade) inspect(level int, f *version.FileMeta) (tableState, error) {
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
	present, whole := filters.Whole()
	low, high := u.policies(level)
	want := u.filtersOf(low, keys)
	known := whole && (len(present) > 0 || filters.Listed() == 0) // a store without policies knows no filter
	if err == nil && known && keys > 0 && filters.HasRanges(u.tables.RangeFilters) &&
		(u.same(present, want, exact) || u.same(present, u.filtersOf(high, keys), exact)) {
		rate := rateOf(r)
		u.note(f, tableFigures{level, filters.Bytes(), filters.Bytes(), rate, rate})
		return tableCurrent, nil
	}
	if err != nil && !base.IsUnreadable(err) { // a damaged filter needs an upgrade
		return 0, err
	}
	bytesAfter, rateAfter := u.expect(level, keys)
	u.note(f, tableFigures{level, filters.Bytes(), bytesAfter, rateOf(r), rateAfter})
	return tableStale, nil
}

// expect returns the expected size and false-positive rate of the new filters for that many
// keys. If some tables of the level get one bit per key more than others, it returns the mean.
func (u *upgrade) expect(level int, keys uint64) (bytes uint64, rate float64) {
	low, high := u.policies(level)
	part := 0.0 // of the tables with the higher number
	if u.bits != nil {
		part = float64(u.bits[level]) - float64(low)
	}
	few, many := u.filtersOf(low, keys), u.filtersOf(high, keys)
	bytes = uint64((1-part)*bytesOfEstimates(few) + part*bytesOfEstimates(many))
	return bytes, (1-part)*rateOfEstimates(few) + part*rateOfEstimates(many)
}

// count replaces the expected figures of f by those of its copy, table num.
func (u *upgrade) count(f *version.FileMeta, num uint64, made copyFigures) {
	figures, bits := u.figures[f], uint64(0)
	if u.bits != nil {
		bits = uint64(u.bits[figures.level].Of(num))
	}
	rate := rateOfEstimates(u.filtersOf(bits, made.keys))
	u.levels[figures.level].after += rate - figures.rateAfter
	figures.bytesAfter, figures.rateAfter = made.filterBytes, rate
	u.figures[f] = figures
}

func (u *upgrade) note(f *version.FileMeta, figures tableFigures) {
	u.figures[f] = figures
	u.levels[figures.level].add(figures, 1)
}

// same reports whether a table has exactly the wanted filters. It compares their names and, if
// sizes depend only on the policy and the number of keys, their sizes. If the number of keys
// is not exact, the sizes cannot be compared, and same returns false unless no filter is wanted.
func (u *upgrade) same(present map[string][]byte, want []filterEstimate, exact bool) bool {
	if len(want) > 0 && !exact {
		return false
	}
	names := map[string]filterEstimate{}
	for _, m := range want {
		names[m.name] = m
		if alias := u.tables.FilterAliases[m.name]; alias != "" {
			names[alias] = m
		}
	}
	for name, m := range names {
		if b, ok := present[name]; !ok || m.fits != nil && !m.fits(b) {
			return false
		}
	}
	return len(present) == len(names)
}

// keysOf returns the number of a table's user keys. It is exact if the writer recorded it. Otherwise it assumes that
// each block has as many keys as the first one has entries. The result is at most the number of the file's bytes: a
// stored number cannot be trusted, and filters for that many keys are made to learn their sizes.
func keysOf(r *sstable.Reader, fileSize uint64) (keys uint64, exact bool, err error) {
	if p, ok := r.Properties(); ok && p.FilterKeys > 0 {
		return min(p.FilterKeys, fileSize), p.FilterKeys <= fileSize, nil
	}
	blocks, _, err := r.DataBlocks()
	if err == nil {
		err = r.SampleBlocks(1, func(uint64, []byte, []byte) error { keys++; return nil })
	}
	return min(keys*uint64(blocks), fileSize), false, err
}

// policies returns the bits per key for tables of a level. With a budget, some tables have high,
// which may be one bit more than low.
func (u *upgrade) policies(level int) (low, high uint64) {
	if u.bits == nil {
		return 0, 0
	}
	bits := float64(u.bits[level])
	return uint64(bits), uint64(math.Ceil(bits))
}

// filtersOf returns the expected filters of the policy for that many keys.
func (u *upgrade) filtersOf(bits, keys uint64) []filterEstimate {
	of := filterSpec{bits, keys}
	if made, ok := u.made[of]; ok || keys == 0 {
		return made
	}
	policy := u.policy
	if u.bits != nil {
		policy = filterplan.Bits(bits).Policy(policy, 0)
	}
	kinds := filter.Kinds(policy)
	made := make([]filterEstimate, len(kinds))
	for i, p := range kinds {
		switch p := p.(type) {
		case filter.BloomPolicy:
			bytes := p.FilterBytes(keys)
			made[i] = filterEstimate{name: p.Name(), bytes: int(bytes), rate: -1}
			made[i].fits = func(b []byte) bool { return uint64(len(b)) == bytes }
			if i == 0 { // only for lookups' filter, since for LevelDB's layout it costs as much as opening a table
				made[i].rate = p.PredictedRate(keys)
			}
		case filter.FusePolicy:
			// All its filters have one name, whatever the bits of their slots.
			fits := func(b []byte) bool { return p.Fits(b, keys) }
			made[i] = filterEstimate{name: p.Name(), bytes: int(p.FilterSize(keys)), fits: fits, rate: p.PredictedRate(keys)}
		default:
			made[i] = estimateFromSample(p, keys)
		}
	}
	u.made[of] = made
	return made
}

// shapeSampleKeys bounds the number of keys of a sample filter. Larger filters are assumed to use
// as many bits per key. The number of keys comes from the file, which cannot be trusted, and a
// filter for the claimed number could use a multiple of the file's size.
const shapeSampleKeys = 1 << 16

// estimateFromSample makes a sample filter of p to estimate the size and rate of others.
func estimateFromSample(p filter.Policy, keys uint64) filterEstimate {
	n := min(keys, shapeSampleKeys)
	arena, all := make([]byte, 0, 8*n), make([][]byte, n)
	for i := range all {
		arena = binary.BigEndian.AppendUint64(arena, uint64(i))
		all[i] = arena[8*i:]
	}
	b := p.CreateFilter(nil, all)
	size := float64(len(b)) / float64(n) * float64(keys)
	made := filterEstimate{name: p.Name(), bytes: int(size), rate: -1} // LegacyBloom's may be twice as large
	if s, ok := filter.ShapeOf(p, b); ok {
		made.rate = s.PredictedRate(n)
	}
	return made
}

// rateOf returns the expected false-positive rate of a table's filter, 1 if it has none.
func rateOf(r *sstable.Reader) float64 {
	if r.FilterSize() == 0 {
		return 1
	}
	if p := r.FilterSummary().Predicted; p >= 0 {
		return p
	}
	return 1
}

// bytesOfEstimates returns the total size of the filter blocks.
func bytesOfEstimates(made []filterEstimate) (bytes float64) {
	for _, m := range made {
		bytes += float64(m.bytes + sstable.FilterEnvelopeLen)
	}
	return bytes
}

// rateOfEstimates returns the rate of the first filter, which lookups will use.
func rateOfEstimates(made []filterEstimate) float64 {
	if len(made) == 0 || made[0].rate < 0 {
		return 1
	}
	return made[0].rate
}
