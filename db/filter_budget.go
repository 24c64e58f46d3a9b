package db

import (
	"math"

	"github.com/cockroachdb/errors"
	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/manifest"
	"github.com/sievedb/sievedb/sstable"
)

// Under a budget each new table's filter has the bits a key that its level deserves
// when the table is begun. Levels change by then, and tables keep their filters until
// they are rewritten: on the last level, which has most of the keys, each time the level
// above has gone through all of it, so about ten times while it grows tenfold. What
// tables have too much meanwhile, new ones get less.

// excessFactor is how many bytes the new tables' share is cut by for each byte that the
// filters are above the budget: at a quarter above they get none.
const excessFactor = 4

// filterOverhead is what a filter takes beside its bits a key: half a cache line in the
// mean, and the ends of the filter and of its block.
const filterOverhead = 47

// filterBits are the bits a key of new tables' filters, not whole.
type filterBits float64

// policy returns the policy of table num: p with the next lower or the next higher
// number of bits, so that among tables of successive numbers the mean is right.
func (b filterBits) policy(p filter.Policy, num uint64) filter.Policy {
	whole := math.Floor(float64(b))
	// The multiples of the golden ratio, modulo 1, are spread evenly.
	if float64(num*0x9e3779b97f4a7c15) < (float64(b)-whole)*math.Pow(2, 64) {
		whole++
	}
	q, ok := filter.WithBitsPerKey(p, int(whole))
	if !ok {
		panic("db: a filter policy without bits passed validation")
	}
	return q
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
	if !(o.MaxWastedReads >= 0) || math.IsInf(o.MaxWastedReads, 0) || o.FilterBudget < 0 {
		return errors.Newf("sievedb: Options.FilterBudget is %d and Options.MaxWastedReads %g; neither may be negative", o.FilterBudget, o.MaxWastedReads)
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
	loads, filterBytes, rewritten := d.filterLoads(v, c)
	if level > 0 {
		loads[level].Keys += newKeys
	}
	bits := d.allocateBits(v, loads, 0)
	if d.opts.FilterBudget > 0 {
		excess := filterBytes + (newKeys+rewritten)*bits[level]/8 - float64(d.opts.FilterBudget)
		if excess > 0 {
			bits = d.allocateBits(v, loads, excess)
		}
	}
	return filterBits(bits[level])
}

// allocateBits returns the bits of each level; excess is how many bytes all filters are above the budget.
func (d *DB) allocateBits(v *manifest.Version, loads []filter.LevelLoad, excess float64) []float64 {
	curve := d.opts.filterCurve()
	if d.opts.MaxWastedReads > 0 {
		return curve.AllocateFor(loads, d.opts.MaxWastedReads)
	}
	budget := float64(d.opts.FilterBudget)
	budget -= min(filterOverhead*float64(v.NumFiles()), budget/2)
	return curve.Allocate(loads, 8*(budget-excessFactor*excess))
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
	loads, _, _ := d.filterLoads(v, nil)
	for level, b := range d.allocateBits(v, loads, 0) {
		bits[level] = filterBits(b)
	}
	return bits
}

// filterLoads returns the levels as they will be after c, the bytes of the filters that
// will be left, and the keys of c's inputs. Level 0 counts with as many tables as it
// usually comes to hold.
func (d *DB) filterLoads(v *manifest.Version, c *manifest.Compaction) (loads []filter.LevelLoad, filterBytes, rewritten float64) {
	loads = make([]filter.LevelLoad, NumLevels)
	inputs := map[*manifest.FileMeta]bool{}
	if c != nil {
		for _, f := range c.AllInputs() {
			inputs[f] = true
		}
	}
	guess := newGuess(v)
	for level := range loads {
		loads[level].Weight = 1
		for _, f := range v.Levels[level].Files {
			keys, bytes := guess.of(level, f)
			if inputs[f] {
				rewritten += keys
				continue
			}
			loads[level].Keys += keys
			filterBytes += bytes
		}
	}
	if c != nil {
		loads[c.OutputLevel].Keys += rewritten
	}
	runs := float64(max(d.opts.L0CompactionTrigger, len(v.Levels[0].Files)))
	loads[0].Weight = runs
	loads[0].Keys = max(loads[0].Keys, runs*float64(d.flushedKeys.Load()))
	return loads, filterBytes, rewritten
}

// guess knows the keys and filter bytes of tables in proportion to their size, by level
// and, last, over all, for tables whose figures are not known.
type guess [NumLevels + 1]struct{ size, keys, filterBytes float64 }

func newGuess(v *manifest.Version) *guess {
	g := &guess{}
	v.Files(func(level int, f *manifest.FileMeta) {
		if known := f.Figures.Load(); known != nil {
			for _, i := range []int{level, NumLevels} {
				g[i].size += float64(f.Size)
				g[i].keys += float64(known.Keys)
				g[i].filterBytes += float64(known.FilterBytes)
			}
		}
	})
	return g
}

// unknownKeyBytes is what an entry takes in a table of which nothing is known.
const unknownKeyBytes = 128

func (g *guess) of(level int, f *manifest.FileMeta) (keys, filterBytes float64) {
	if known := f.Figures.Load(); known != nil {
		return float64(known.Keys), float64(known.FilterBytes)
	}
	for _, i := range []int{level, NumLevels} {
		if part := float64(f.Size) / g[i].size; g[i].size > 0 {
			return part * g[i].keys, part * g[i].filterBytes
		}
	}
	return float64(f.Size) / unknownKeyBytes, 0
}

// learnFrom is how many tables of a level are opened to guess what the others hold.
const learnFrom = 8

// learnFigures opens some tables of each level of which nothing is known: after Open,
// or when LevelDB wrote them. What cannot be opened is left to guesses.
func (d *DB) learnFigures(v *manifest.Version) {
	for level := range v.Levels {
		files := v.Levels[level].Files
		known := false
		for _, f := range files {
			known = known || f.Figures.Load() != nil
		}
		for i := 0; !known && i < min(learnFrom, len(files)); i++ {
			f := files[i*len(files)/min(learnFrom, len(files))]
			if r, err := d.tables.ref(f); err == nil {
				r.Unref()
			}
		}
	}
}

// figuresOf returns the figures of an open table.
func figuresOf(r *sstable.Reader, f *manifest.FileMeta) *manifest.FilterFigures {
	figures := &manifest.FilterFigures{FilterBytes: r.FilterSize()}
	if p, ok := r.Properties(); ok {
		figures.Keys = max(p.FilterKeys, p.Entries)
	} else if figures.Keys = r.FilterFigures().Keys; figures.Keys == 0 {
		figures.Keys = f.Size / unknownKeyBytes
	}
	return figures
}
