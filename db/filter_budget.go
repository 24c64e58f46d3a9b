package db

import (
	"math"

	"github.com/cockroachdb/errors"
	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/manifest"
)

// Under a budget each new table's filter has the bits a key that its level deserves
// when the table is begun. Levels change by then, and tables keep their filters until
// they are rewritten: on the last level, which has most of the keys, each time the level
// above has gone through all of it, so about ten times while it grows tenfold. So it is
// planned for the size that the last level will have half-way to there, and a part of the
// budget is not dealt out. What tables have too much all the same, new ones get less; but
// gently, for a table that is starved costs more reads than others that are rich save.

// undealt is the part of a budget that is not dealt out.
const undealt = 0.05

// Of what the filters are above their part of the budget, new tables' plan is cut by twice
// as much; and by eight times what is above a tenth, as where tables are only moved down:
// a fifth above, they get none.
const (
	excessFactor  = 2
	steepFrom     = 0.1
	steepExcessBy = 8
)

// filterOverhead is what a filter takes beside its bits a key: half a cache line in the
// mean, and the ends of the filter and of its block.
const filterOverhead = 47

// filterBits are the bits a key of new tables' filters, not whole.
type filterBits float64

// of returns the bits of table num.
func (b filterBits) of(num uint64) int {
	whole := math.Floor(float64(b))
	// The multiples of the golden ratio, modulo 1, are spread evenly.
	if float64(num*0x9e3779b97f4a7c15) < (float64(b)-whole)*math.Pow(2, 64) {
		whole++
	}
	return int(whole)
}

// policy returns the policy of table num: p with the next lower or the next higher
// number of bits, so that among tables of successive numbers the mean is right.
func (b filterBits) policy(p filter.Policy, num uint64) filter.Policy {
	q, ok := filter.WithBitsPerKey(p, b.of(num))
	if !ok {
		panic("db: a filter policy without bits passed validation")
	}
	return q
}

// policies returns policy for tables whose number is not known yet.
func (b filterBits) policies(p filter.Policy) func(fileNum uint64) filter.Policy {
	return func(num uint64) filter.Policy { return b.policy(p, num) }
}

func (o *Options) hasFilterBudget() bool { return o.FilterBudget > 0 || o.MaxWastedReads > 0 }

// filtersByLevel reports whether the bits of a table's filters depend on its level.
func (o *Options) filtersByLevel() bool { return o.hasFilterBudget() || o.Filter == defaultFilter }

// upperFilterBits are the bits a key that the default filter has above the last level. A
// tenth of the keys or so is there, in all but one of the runs that a lookup asks: with half as many bits again, a
// twentieth of the filters' memory, those runs hardly ever pass an absent key.
const upperFilterBits = defaultFilterBits * 3 / 2

// defaultBits returns the bits a key of the default filter, for tables that have others
// below them or not.
func defaultBits(below bool) filterBits {
	if below {
		return upperFilterBits
	}
	return defaultFilterBits
}

// filesBelow reports whether there are tables on a deeper level.
func filesBelow(v *manifest.Version, level int) bool {
	for l := level + 1; l < NumLevels; l++ {
		if len(v.Levels[l].Files) > 0 {
			return true
		}
	}
	return false
}

// filterCurve returns the rates of the filters that lookups ask. There is a budget.
func (o *Options) filterCurve() filter.Curve {
	return filter.Kinds(o.Filter)[0].(filter.BloomPolicy).Curve()
}

func (o *Options) validateFilterBudget() error {
	if o.FilterBudget < 0 {
		return errors.Newf("sievedb: Options.FilterBudget is %d; it must be 0, for none, or a number of bytes", o.FilterBudget)
	}
	if !(o.MaxWastedReads >= 0 && o.MaxWastedReads < 1) { // NaN is neither
		return errors.Newf("sievedb: Options.MaxWastedReads is %g; it must be 0, for no bound, or reads a lookup below 1, as 0.02 for two in a hundred lookups", o.MaxWastedReads)
	}
	if o.FilterBudget > 0 && o.MaxWastedReads > 0 {
		return errors.New("sievedb: Options.FilterBudget and Options.MaxWastedReads exclude each other")
	}
	if _, ok := filter.WithBitsPerKey(o.Filter, 1); o.hasFilterBudget() && !ok {
		return errors.Newf("sievedb: Options.FilterBudget and Options.MaxWastedReads choose the bits a key of filter.BloomPolicy, "+
			"but lookups ask filters of Options.Filter, %q; unset one of the two", o.Filter.Name())
	}
	return nil
}

// flushBits returns the bits for a table of level 0 with so many keys. Without a
// budget, bits here and below count for the default filter alone.
func (d *DB) flushBits(keys int) filterBits {
	if !d.opts.hasFilterBudget() {
		return defaultBits(true)
	}
	d.flushedKeys.Store(uint64(keys))
	return d.levelBits(0, float64(keys), nil)
}

// compactionBits returns the bits for the tables that c writes.
func (d *DB) compactionBits(c *manifest.Compaction) filterBits {
	if !d.opts.hasFilterBudget() {
		return defaultBits(filesBelow(c.Version, c.OutputLevel))
	}
	return d.levelBits(c.OutputLevel, 0, c)
}

// loadBits returns the bits for a load's next table, when the load has so many keys: as
// for the last level, where most loads go as a whole.
func (d *DB) loadBits(keys uint64) filterBits {
	if !d.opts.hasFilterBudget() {
		return defaultBits(false)
	}
	return d.levelBits(NumLevels-1, float64(keys), nil)
}

// levelBits returns the bits for new tables of a level, with so many keys that no table
// has yet, in place of the inputs of c, if it is not nil.
func (d *DB) levelBits(level int, newKeys float64, c *manifest.Compaction) filterBits {
	v := d.set.RefCurrent()
	defer v.Unref()
	d.learnFigures(v)
	now := d.filterLoads(v, c, newKeys)
	if level > 0 {
		now.levels[level].Keys += newKeys
	}
	loads := now.grown()
	bits := d.allocateBits(v, loads, now.budget)
	if d.opts.FilterBudget > 0 {
		excess := now.filterBytes + (newKeys+now.rewritten)*bits[level]/8 - now.budget
		if excess > 0 {
			bits = d.allocateBits(v, loads, now.budget-excessFactor*excess-steepExcessBy*max(0, excess-steepFrom*now.budget))
		}
	}
	return filterBits(bits[level])
}

// allocateBits returns the bits of each level, for all of them together so many bytes if there is no
// bound for the reads instead.
func (d *DB) allocateBits(v *manifest.Version, loads []filter.LevelLoad, bytes float64) []float64 {
	curve := d.opts.filterCurve()
	if d.opts.MaxWastedReads > 0 {
		return curve.AllocateFor(loads, d.opts.MaxWastedReads)
	}
	return curve.Allocate(loads, 8*(bytes-min(filterOverhead*float64(v.NumFiles()), max(bytes, 0)/2)))
}

// bitsByLevel returns the bits that all tables of each level deserve as the levels are.
func (d *DB) bitsByLevel() []filterBits {
	v := d.set.RefCurrent()
	defer v.Unref()
	bits := make([]filterBits, NumLevels)
	if !d.opts.hasFilterBudget() {
		for level := range bits {
			bits[level] = defaultBits(level == 0 || filesBelow(v, level))
		}
		return bits
	}
	d.learnFigures(v)
	now := d.filterLoads(v, nil, 0)
	for level, b := range d.allocateBits(v, now.levels, now.budget) {
		bits[level] = filterBits(b)
	}
	return bits
}
