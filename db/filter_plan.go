package db

import (
	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/base/errors"
)

// FilterPlan describes what filters would use and save in a database that need not exist:
// filled evenly, settled, with keys in random order. It is calculated, not measured.
type FilterPlan struct {
	// Levels are the levels that the data would have, level 0 first, with filters of the requested memory.
	Levels []PlannedLevel
	// At is the requested memory, and Curve other amounts: from no filters in steps of one bit a key, or a slot of a
	// fuse filter.
	At    PlannedMemory
	Curve []PlannedMemory
}

// PlannedLevel is a level of a FilterPlan. Bits are bits a key, rates are false-positive rates,
// 0 to 1. Uniform means the same bits on all levels, Solved those of Options.Filters.Budget.
type PlannedLevel struct {
	Level                   int
	Keys                    float64
	Runs                    float64 // tables that a lookup consults
	UniformBits, SolvedBits float64
	UniformRate, SolvedRate float64
}

// PlannedMemory describes the effect of an amount of memory for filters.
type PlannedMemory struct {
	Bytes      float64 // of all filters together
	BitsPerKey float64 // on average
	Uniform    PlannedReads
	Solved     PlannedReads
}

// PlannedReads is the average number of data blocks read by a lookup: of an absent key, where
// all of them are wasted, and of a present key, which needs one.
type PlannedReads struct {
	Miss, Hit float64
}

// mostPlannedKeys is the greatest number up to which floating point distinguishes integers.
const mostPlannedKeys = 1 << 53

// PlanFilters plans the filters of a database under these options, nil for the defaults, with the given number of keys
// and memoryBytes for filters. entryBytes is the size of a key with its value in tables. o.Filters.Policy must make
// filters of filter.BloomPolicy or FusePolicy; o.Filters.Budget and o.Filters.MaxWastedReads are ignored.
func (o *Options) PlanFilters(keys, entryBytes, memoryBytes uint64) (*FilterPlan, error) {
	c, _ := o.withDefaults()
	if keys == 0 || keys > mostPlannedKeys || entryBytes == 0 {
		return nil, errors.Newf("sievedb: a plan for %d keys of %d bytes; want 1 to %d keys of a byte or more", keys, entryBytes, uint64(mostPlannedKeys))
	}
	if _, ok := filter.WithBitsPerKey(c.Filters.Policy, 1); !ok {
		return nil, errors.Newf("sievedb: a plan divides the bits a key of filter.BloomPolicy or FusePolicy, but lookups ask filters of Options.Filters.Policy, %q", c.Filters.Policy.Name())
	}
	fp := c.filterPlanOptions()
	est := fp.Estimate(float64(keys), float64(entryBytes))
	memory := func(bytes float64) PlannedMemory {
		m := est.At(bytes)
		return PlannedMemory{m.Bytes, m.BitsPerKey, PlannedReads(est.Reads(m.Uniform)), PlannedReads(est.Reads(m.Solved))}
	}
	plan := &FilterPlan{At: memory(float64(memoryBytes))}
	for b := range est.Curve {
		plan.Curve = append(plan.Curve, memory(est.Keys*est.PerBit*float64(b)/8))
	}
	at := est.At(float64(memoryBytes))
	for i, l := range est.Tree {
		if l.Keys > 0 {
			plan.Levels = append(plan.Levels, PlannedLevel{
				Level: i, Keys: l.Keys, Runs: l.Weight,
				UniformBits: at.Uniform[i] * est.PerBit, UniformRate: est.Curve.Rate(at.Uniform[i]),
				SolvedBits: at.Solved[i] * est.PerBit, SolvedRate: est.Curve.Rate(at.Solved[i]),
			})
		}
	}
	return plan, nil
}
