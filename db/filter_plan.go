package db

import (
	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/errors"
)

// FilterPlan tells what filters would take and save in a database that need not exist:
// filled evenly, settled, with keys of no order. It is computed, not measured.
type FilterPlan struct {
	// Levels are those that the data would take, level 0 first, with the filters that
	// the memory asked for allows.
	Levels []PlannedLevel
	// At is that memory, and Curve any other: from no filters in steps of one bit a key.
	At    PlannedMemory
	Curve []PlannedMemory
}

// PlannedLevel is a level of a FilterPlan. Bits are bits a key, rates those of false
// positives, 0 to 1; Uniform where all levels have the same bits, Solved where they
// have what Options.Filters.Budget gives them.
type PlannedLevel struct {
	Level                   int
	Keys                    float64
	Runs                    float64 // tables that a lookup asks
	UniformBits, SolvedBits float64
	UniformRate, SolvedRate float64
}

// PlannedMemory is what some memory for filters buys.
type PlannedMemory struct {
	Bytes      float64 // of all filters together
	BitsPerKey float64 // in the mean
	Uniform    PlannedReads
	Solved     PlannedReads
}

// PlannedReads counts data blocks read in the mean: by a lookup of an absent key, all of
// them wasted, and by one of a key that is there, where it needs one.
type PlannedReads struct {
	Miss, Hit float64
}

// mostPlannedKeys is as many as floating point numbers can tell apart.
const mostPlannedKeys = 1 << 53

// PlanFilters plans the filters of a database under these options, nil for the
// defaults, with so many keys of entryBytes each, key and value together as the tables
// hold them, and memoryBytes for filters. o.Filters.Policy must make filters of
// filter.BloomPolicy; o.Filters.Budget and o.Filters.MaxWastedReads play no part.
func (o *Options) PlanFilters(keys, entryBytes, memoryBytes uint64) (*FilterPlan, error) {
	c := o.withDefaults()
	if keys == 0 || keys > mostPlannedKeys || entryBytes == 0 {
		return nil, errors.Newf("sievedb: a plan for %d keys of %d bytes; it takes 1 to %d keys, of a byte or more", keys, entryBytes, uint64(mostPlannedKeys))
	}
	if _, ok := filter.WithBitsPerKey(c.Filters.Policy, 1); !ok {
		return nil, errors.Newf("sievedb: a plan divides the bits a key of filter.BloomPolicy, but lookups ask filters of Options.Filters.Policy, %q", c.Filters.Policy.Name())
	}
	fp := c.filterPlanOptions()
	est := fp.Estimate(float64(keys), float64(entryBytes))
	memory := func(bytes float64) PlannedMemory {
		m := est.At(bytes)
		return PlannedMemory{m.Bytes, m.BitsPerKey, PlannedReads(est.Reads(m.Uniform)), PlannedReads(est.Reads(m.Solved))}
	}
	plan := &FilterPlan{At: memory(float64(memoryBytes))}
	for b := range est.Curve {
		plan.Curve = append(plan.Curve, memory(est.Keys*float64(b)/8))
	}
	at := est.At(float64(memoryBytes))
	for i, l := range est.Tree {
		if l.Keys > 0 {
			plan.Levels = append(plan.Levels, PlannedLevel{
				Level: i, Keys: l.Keys, Runs: l.Weight,
				UniformBits: at.Uniform[i], UniformRate: est.Curve.Rate(at.Uniform[i]),
				SolvedBits: at.Solved[i], SolvedRate: est.Curve.Rate(at.Solved[i]),
			})
		}
	}
	return plan, nil
}
