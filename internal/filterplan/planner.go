package filterplan

import (
	"sync/atomic"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/manifest"
)

// Options are those of the store that the plan depends on.
type Options struct {
	// Filter makes the filters. Under a budget, and if it is the default, its bits a key
	// can be chosen (filter.WithBitsPerKey).
	Filter filter.Policy
	// DefaultBits is the bits a key of the default filter on the last level; 0: Filter
	// is not the default.
	DefaultBits int
	// Budget is the bytes of all filters together, MaxWastedReads the reads that a lookup
	// of an absent key may waste. At most one is above 0; both 0: no budget.
	Budget         int64
	MaxWastedReads float64
	// The others decide what levels look like.
	L0CompactionTrigger int
	WriteBufferSize     int
	MaxLevelBase        int64
}

// HasBudget reports whether there is one.
func (o *Options) HasBudget() bool { return o.Budget > 0 || o.MaxWastedReads > 0 }

// ByLevel reports whether the bits of a table's filters depend on its level.
func (o *Options) ByLevel() bool { return o.HasBudget() || o.DefaultBits > 0 }

// Curve returns the false-positive rates of the filters that lookups ask, which must be of
// filter.BloomPolicy.
func (o *Options) Curve() filter.Curve { return filter.Kinds(o.Filter)[0].(filter.BloomPolicy).Curve() }

// Tables is what a Planner asks the store.
type Tables interface {
	// RefCurrent returns the current version, which the Planner unrefs.
	RefCurrent() *manifest.Version
	// Sizes returns what is known of a table, without reading anything.
	Sizes(*manifest.FileMeta) (s Sizes, known bool)
	// Learn makes Sizes known, if it can: it may open the table.
	Learn(*manifest.FileMeta)
}

// Sizes are a table's distinct user keys, perhaps estimated, the bytes of the filter
// that lookups ask, 0 without one, and the bytes of its range filters.
type Sizes struct{ Keys, FilterBytes, RangeBytes uint64 }

// Planner plans the filters of one store.
type Planner struct {
	Options
	tables Tables
	// flushedKeys is how many entries the memtable flushed last had.
	flushedKeys atomic.Uint64
}

// New returns a Planner for a store.
func New(o Options, tables Tables) *Planner { return &Planner{Options: o, tables: tables} }

// budgetReserve is the part of a budget that is held in reserve.
const budgetReserve = 0.05

// If the existing filters are above the budget, the plan for new tables is cut by twice the
// excess; and by eight times what is above a tenth, which happens when tables are only
// moved down: at a fifth above the budget, new tables get no filters.
const (
	excessFactor  = 2
	steepFrom     = 0.1
	steepExcessBy = 8
)

// filterOverhead is what a filter takes beside its bits a key, in bytes: half a cache line
// on average, and the ends of the filter and of its block.
const filterOverhead = 47

// defaultBits returns the bits a key of the default filter, for tables that have others
// below them or not. About a tenth of the keys is above the last level, in all but one of
// the runs that a lookup asks: with half as many bits again, a twentieth of the filters'
// memory, those runs hardly ever pass an absent key.
func (p *Planner) defaultBits(below bool) Bits {
	if below {
		return Bits(p.DefaultBits * 3 / 2)
	}
	return Bits(p.DefaultBits)
}

// filesBelow reports whether there are tables on a deeper level.
func filesBelow(v *manifest.Version, level int) bool {
	for l := level + 1; l < manifest.NumLevels; l++ {
		if len(v.Levels[l].Files) > 0 {
			return true
		}
	}
	return false
}

// FlushBits returns the bits for a table of level 0 with so many keys. Without a
// budget, bits here and below count for the default filter alone.
func (p *Planner) FlushBits(keys int) Bits {
	if !p.HasBudget() {
		return p.defaultBits(true)
	}
	p.flushedKeys.Store(uint64(keys))
	return p.levelBits(0, float64(keys), nil)
}

// CompactionBits returns the bits for the tables that c writes.
func (p *Planner) CompactionBits(c *manifest.Compaction) Bits {
	if !p.HasBudget() {
		return p.defaultBits(filesBelow(c.Version, c.OutputLevel))
	}
	return p.levelBits(c.OutputLevel, 0, c)
}

// LoadBits returns the bits for a load's next table, when the load has so many keys: as
// for the last level, where most loads go as a whole.
func (p *Planner) LoadBits(keys uint64) Bits {
	if !p.HasBudget() {
		return p.defaultBits(false)
	}
	return p.levelBits(manifest.NumLevels-1, float64(keys), nil)
}

// levelBits returns the bits for new tables of a level, with so many keys that no table
// has yet, instead of the inputs of c, if it is not nil.
func (p *Planner) levelBits(level int, newKeys float64, c *manifest.Compaction) Bits {
	v := p.tables.RefCurrent()
	defer v.Unref()
	p.learnSizes(v)
	now := p.loads(v, c, newKeys)
	if level > 0 {
		now.levels[level].Keys += newKeys
	}
	loads := now.grown()
	bits := p.allocate(v, loads, now.budget)
	if p.Budget > 0 {
		excess := now.filterBytes + (newKeys+now.rewritten)*bits[level]/8 - now.budget
		if excess > 0 {
			bits = p.allocate(v, loads, now.budget-excessFactor*excess-steepExcessBy*max(0, excess-steepFrom*now.budget))
		}
	}
	return Bits(bits[level])
}

// allocate returns the bits of each level, for all of them together so many bytes if there is no
// bound for the reads instead.
func (p *Planner) allocate(v *manifest.Version, loads []filter.LevelLoad, bytes float64) []float64 {
	curve := p.Curve()
	if p.MaxWastedReads > 0 {
		return curve.AllocateFor(loads, p.MaxWastedReads)
	}
	return curve.Allocate(loads, 8*(bytes-min(filterOverhead*float64(v.NumFiles()), max(bytes, 0)/2)))
}

// LevelBits returns the bits that all tables of each level deserve as the levels are.
func (p *Planner) LevelBits() []Bits {
	v := p.tables.RefCurrent()
	defer v.Unref()
	bits := make([]Bits, manifest.NumLevels)
	if !p.HasBudget() {
		for level := range bits {
			bits[level] = p.defaultBits(level == 0 || filesBelow(v, level))
		}
		return bits
	}
	p.learnSizes(v)
	now := p.loads(v, nil, 0)
	for level, b := range p.allocate(v, now.levels, now.budget) {
		bits[level] = Bits(b)
	}
	return bits
}
