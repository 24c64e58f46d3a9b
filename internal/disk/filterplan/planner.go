package filterplan

import (
	"math"
	"sync/atomic"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/disk/pick"
	"github.com/sievedb/sievedb/internal/disk/version"
)

// Options are the options of the store on which the plan depends.
type Options struct {
	// Filter makes the filters. If there is a budget, or if it is the default filter, its
	// bits per key are adjustable (filter.WithBitsPerKey).
	Filter filter.Policy
	// DefaultBits is the number of bits per key of the default filter on the last level, or 0
	// if Filter is not the default.
	DefaultBits int
	// Budget is the maximum size of all filters in bytes, and MaxWastedReads the maximum number of reads that a lookup
	// of an absent key may waste. At most one is above 0. If both are 0, there is no budget.
	Budget         int64
	MaxWastedReads float64
	// The other options determine the sizes of the levels.
	L0CompactionTrigger int
	WriteBufferSize     int
	MaxLevelBase        int64
}

// HasBudget reports whether there is a budget.
func (o *Options) HasBudget() bool { return o.Budget > 0 || o.MaxWastedReads > 0 }

// ByLevel reports whether the bits of a table's filters depend on its level.
func (o *Options) ByLevel() bool { return o.HasBudget() || o.DefaultBits > 0 }

// Curve returns the false-positive rates of the filters that lookups query, whose bits must be
// adjustable, and how many bits per key a bit of the curve uses: see filter.CurveOf.
func (o *Options) Curve() (c filter.Curve, bitsPerKey float64) {
	c, bitsPerKey, ok := filter.CurveOf(o.Filter)
	if !ok {
		panic("filterplan: the bits of a validated filter policy cannot be adjusted")
	}
	return c, bitsPerKey
}

// Tables is the part of a store that a Planner uses.
type Tables interface {
	// RefCurrent returns the current version with a reference, which the Planner releases.
	RefCurrent() *version.Version
	// Sizes returns the sizes of a table if they are known, without reading anything.
	Sizes(*version.FileMeta) (s Sizes, known bool)
	// Learn makes the result of Sizes known, if possible: it may open the table.
	Learn(*version.FileMeta)
}

// Sizes are the number of a table's distinct user keys, possibly estimated, the size in bytes of
// the filter that lookups query, or 0 without one, and the size of its range filters.
type Sizes struct{ Keys, FilterBytes, RangeBytes uint64 }

// Planner plans the filters of one store.
type Planner struct {
	Options
	tables Tables
	curve  filter.Curve // of Options, if there is a budget
	perBit float64
	// flushedKeys is the number of entries of the memtable that was flushed last.
	flushedKeys atomic.Uint64
}

// New returns a Planner for a store.
func New(o Options, tables Tables) *Planner {
	p := &Planner{Options: o, tables: tables}
	if p.HasBudget() {
		p.curve, p.perBit = p.Curve() // to compute it takes half a millisecond
	}
	return p
}

// budgetReserve is the part of a budget that is kept in reserve, and forLevel0 what a compaction of everything
// leaves for tables that are written afterwards, until level 0 is compacted.
const (
	budgetReserve = 0.05
	forLevel0     = 0.02
)

// If the existing filters exceed the budget, the plan for new tables is cut by twice the excess,
// and by eight times the excess above a tenth of the budget, which happens when tables are only
// moved down: at a fifth above the budget, new tables get no filters.
const (
	excessFactor  = 2
	steepFrom     = 0.1
	steepExcessBy = 8
)

// filterOverhead is the size of a filter in addition to its bits per key, in bytes: half a cache
// line on average, and the trailers of the filter and of its block.
const filterOverhead = 47

// defaultBits returns the bits per key of the default filter, for tables above other tables or on the last level. About
// a tenth of the keys is above the last level, in all but one of the runs that a lookup consults. With half as many
// bits again, which uses a twentieth of the filters' memory, those runs hardly ever match an absent key.
func (p *Planner) defaultBits(below bool) Bits {
	if below {
		return Bits(p.DefaultBits * 3 / 2)
	}
	return Bits(p.DefaultBits)
}

// filesBelow reports whether a deeper level has tables.
func filesBelow(v *version.Version, level int) bool {
	for l := level + 1; l < version.NumLevels; l++ {
		if len(v.Levels[l].Files) > 0 {
			return true
		}
	}
	return false
}

// FlushBits returns the bits for a table of level 0 with that many keys. Without a budget, the
// results of this and the following methods apply only to the default filter.
func (p *Planner) FlushBits(keys int) Bits {
	if !p.HasBudget() {
		return p.defaultBits(true)
	}
	p.flushedKeys.Store(uint64(keys))
	return p.levelBits(0, float64(keys), nil)
}

// CompactionBits returns the bits for the tables that c writes.
func (p *Planner) CompactionBits(c *pick.Compaction) Bits {
	if !p.HasBudget() {
		return p.defaultBits(filesBelow(c.Version, c.OutputLevel))
	}
	return p.levelBits(c.OutputLevel, 0, c)
}

// LoadBits returns the bits for the next table of a load of that many keys: those of the last
// level, where most loads are placed.
func (p *Planner) LoadBits(keys uint64) Bits {
	if !p.HasBudget() {
		return p.defaultBits(false)
	}
	return p.levelBits(version.NumLevels-1, float64(keys), nil)
}

// levelBits returns the bits for new tables of a level with newKeys keys that are in no table yet.
// If c is not nil, the new tables replace its inputs.
func (p *Planner) levelBits(level int, newKeys float64, c *pick.Compaction) Bits {
	v := p.tables.RefCurrent()
	defer v.Unref()
	p.learnSizes(v)
	now := p.loads(v, c, newKeys, c != nil && c.Reason == pick.ReasonManual)
	if level > 0 {
		now.levels[level].Keys += newKeys
	}
	loads := now.grown()
	bits := p.allocate(v, loads, now.budget)
	if p.Budget > 0 {
		excess := now.filterBytes + (newKeys+now.rewritten)*bits[level]*p.perBit/8 - now.budget
		if excess > 0 {
			bits = p.allocate(v, loads, now.budget-excessFactor*excess-steepExcessBy*max(0, excess-steepFrom*now.budget))
		}
		tables, room := 4.0, now.room // of a load
		switch {
		case c != nil:
			tables = max(1, float64(c.InputBytes())/float64(max(c.TableSize, 1)))
		case level == 0: // the later tables of level 0 have a part, too
			tables = 1
			room /= float64(max(p.L0CompactionTrigger-len(v.Levels[0].Files), 2))
		}
		bits[level] = within(bits[level], 8*(room-filterOverhead*tables)/p.perBit/max(newKeys+now.rewritten, 1), tables)
	}
	return Bits(bits[level])
}

// within returns the bits for the keys of that many tables, at most bits, with which they have at most the given
// number on average, although each table has a whole number.
func within(bits, most, tables float64) float64 {
	if math.Ceil(bits) <= most {
		return bits
	}
	return max(0, min(bits, max(math.Floor(min(bits, most)), most-1/tables)))
}

// allocate returns the bits of each level. All filters together have the given number of bytes,
// unless the number of reads is bounded instead.
func (p *Planner) allocate(v *version.Version, loads []filter.LevelLoad, bytes float64) []float64 {
	if p.MaxWastedReads > 0 {
		return p.curve.AllocateFor(loads, p.MaxWastedReads)
	}
	return p.curve.Allocate(loads, 8*(bytes-min(filterOverhead*float64(v.NumFiles()), max(bytes, 0)/2))/p.perBit)
}

// LevelBits returns the best bits for the tables of each level in its present state.
func (p *Planner) LevelBits() []Bits {
	v := p.tables.RefCurrent()
	defer v.Unref()
	bits := make([]Bits, version.NumLevels)
	if !p.HasBudget() {
		for level := range bits {
			bits[level] = p.defaultBits(level == 0 || filesBelow(v, level))
		}
		return bits
	}
	p.learnSizes(v)
	now := p.loads(v, nil, 0, true)
	for level, b := range p.allocate(v, now.levels, now.budget) {
		bits[level] = Bits(b)
	}
	return bits
}

// Underused reports whether all tables are on one level with filters that are smaller than the budget allows:
// a compaction that began before it was the only one left room for others.
func (p *Planner) Underused() bool {
	if p.Budget == 0 {
		return false
	}
	v := p.tables.RefCurrent()
	defer v.Unref()
	p.learnSizes(v)
	now := p.loads(v, nil, 0, true)
	planned := 0.0
	for level, b := range p.allocate(v, now.levels, now.budget) {
		planned += b * p.perBit * now.levels[level].Keys / 8
	}
	return now.oneLevel() && now.filterBytes < 0.98*planned
}
