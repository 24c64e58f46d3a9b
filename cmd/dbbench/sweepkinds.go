package main

import (
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/sievedb/sievedb/cmd/internal/bench"
	"github.com/sievedb/sievedb/cmd/internal/chart"
	"github.com/sievedb/sievedb/filter"
)

// sweepKind is a kind of filter that filtersweep compares.
type sweepKind struct {
	name string // in --filters
	noun string // in text
	// series is its colour and mark in charts.
	series chart.Series
	// policy returns the filter policy with this number of bits per key; nil: no filter.
	policy func(bits int) filter.Policy
	// fixed kinds have no choice of bits, and are measured once.
	fixed bool
}

var sweepKinds = []sweepKind{
	{name: "none", noun: "no filter"},
	{name: "bloom", noun: "LevelDB's bloom", series: 1, policy: func(b int) filter.Policy { return filter.NewBloomPolicy(b) }},
	{name: "cacheline", noun: "cache lines", series: 2, policy: func(b int) filter.Policy { return filter.NewCacheLineBloomPolicy(b) }},
	{name: "fuse", noun: "binary fuse", series: 3, policy: func(int) filter.Policy { return filter.FusePolicy{} }, fixed: true},
}

const (
	sweepName         = "filtersweep"
	defaultSweepKinds = "none,bloom,cacheline,fuse"
	defaultSweepBits  = "4,6,8,10,12,14,16,18,20"
	defaultRepeat     = 5
)

// sweepFlags declares the flags of filtersweep.
func (c *config) sweepFlags(fs *flag.FlagSet) {
	c.Filters, _ = parseFilters(defaultSweepKinds)
	c.Bits, _ = parseBits(defaultSweepBits)
	fs.Func("filters", "comma-separated `kinds` of filters for filtersweep; default: "+defaultSweepKinds, func(s string) (err error) {
		c.Filters, err = parseFilters(s)
		return err
	})
	fs.Func("bits", "comma-separated filter `bits` per key for filtersweep, as numbers or ranges; default: "+defaultSweepBits, func(s string) (err error) {
		c.Bits, err = parseBits(s)
		return err
	})
	fs.IntVar(&c.Repeat, "repeat", defaultRepeat, "`times` to measure each time of filtersweep; the median is shown")
	fs.StringVar(&c.HTML, "html", "", "write filtersweep's report with charts to this `file`, a self-contained page")
}

// chooseSweep selects filtersweep if one of its flags is given and no workload is named.
func (c *config) chooseSweep(given map[string]bool) error {
	for _, name := range []string{"filters", "bits", "html"} {
		switch {
		case !given[name] || slices.Contains(c.Benchmarks, sweepName):
		case len(c.Benchmarks) > 0:
			return fmt.Errorf("--%s is for %s, which --benchmarks does not name; add it there", name, sweepName)
		case c.UseExistingDB:
			return fmt.Errorf("--%s runs %s, which creates its own stores; omit --use_existing_db", name, sweepName)
		default:
			c.Benchmarks = []string{sweepName}
		}
	}
	return nil
}

func findSweepKind(name string) (sweepKind, bool) {
	i := slices.IndexFunc(sweepKinds, func(k sweepKind) bool { return k.name == name })
	if i < 0 {
		return sweepKind{}, false
	}
	return sweepKinds[i], true
}

// parseFilters parses --filters, a comma-separated list. It returns the names in the order of
// sweepKinds, so reports do not depend on the order of the flag.
func parseFilters(text string) ([]string, error) {
	given := bench.SplitList(text)
	for _, name := range given {
		if _, ok := findSweepKind(name); !ok {
			return nil, fmt.Errorf("unknown kind %q; want some of: %s", name, strings.ReplaceAll(defaultSweepKinds, ",", ", "))
		}
	}
	names := slices.DeleteFunc(strings.Split(defaultSweepKinds, ","), func(name string) bool { return !slices.Contains(given, name) })
	if len(names) == 0 {
		return nil, fmt.Errorf("no kind given; want some of: %s", strings.ReplaceAll(defaultSweepKinds, ",", ", "))
	}
	return names, nil
}

// parseBits parses --bits, a comma-separated list of numbers and ranges such as 4..20.
func parseBits(text string) ([]int, error) {
	var bits []int
	for _, part := range bench.SplitList(text) {
		low, high, isRange := strings.Cut(part, "..")
		if !isRange {
			high = low
		}
		from, err := strconv.Atoi(strings.TrimSpace(low))
		to, err2 := strconv.Atoi(strings.TrimSpace(high))
		if err != nil || err2 != nil || min(from, to) < 1 || max(from, to) > filter.MaxBitsPerKey {
			return nil, fmt.Errorf("%q is not a number of bits or a range; want numbers from 1 to %d such as 10, 8,12 or 4..20",
				part, filter.MaxBitsPerKey)
		}
		if from > to {
			return nil, fmt.Errorf("the range %q is reversed; want %d..%d", part, to, from)
		}
		for b := from; b <= to; b++ {
			bits = append(bits, b)
		}
	}
	if len(bits) == 0 {
		return nil, fmt.Errorf("no number given; want bits per key such as 10, 8,12 or 4..20")
	}
	slices.Sort(bits)
	return slices.Compact(bits), nil
}

// sweepPoint is one filter of the sweep.
type sweepPoint struct {
	Kind string `json:"kind"`
	// Bits is the requested number; 0 for no filter and for kinds without a choice.
	Bits int `json:"bits"`
}

// sweepPoints lists the filters that a sweep measures, by kind.
func sweepPoints(kinds []string, bits []int) []sweepPoint {
	var points []sweepPoint
	for _, name := range kinds {
		k, _ := findSweepKind(name)
		if k.policy == nil || k.fixed {
			points = append(points, sweepPoint{Kind: name})
			continue
		}
		for _, b := range bits {
			points = append(points, sweepPoint{Kind: name, Bits: b})
		}
	}
	return points
}

func (p sweepPoint) policy() filter.Policy {
	k, _ := findSweepKind(p.Kind)
	if k.policy == nil {
		return filter.None
	}
	return k.policy(p.Bits)
}

func (p sweepPoint) String() string {
	if p.Bits == 0 {
		return p.Kind
	}
	return fmt.Sprintf("%s %d", p.Kind, p.Bits)
}
