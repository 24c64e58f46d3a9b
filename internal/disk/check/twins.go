package check

import (
	"context"
	"fmt"
	"slices"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/tables"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/sstable"
)

// twins iterates over all undamaged tables of v in key order, and reports the entries that several of them have.
func (c *checker) twins(ctx context.Context, v *version.Version) error {
	it := new(tables.MergingIter)
	add := func(files []*version.FileMeta) {
		files = slices.DeleteFunc(slices.Clone(files), func(f *version.FileMeta) bool { return c.damaged[f] })
		if len(files) > 0 {
			it.Add(tables.NewLevelIter(c.Cache, c.Comparer, files, sstable.IterOptions{NoFillCache: true, ReadAhead: readAhead}))
		}
	}
	for _, files := range v.DisjointRuns(v.Levels[0].Files) {
		add(files)
	}
	for _, level := range v.Levels[1:] {
		add(level.Files)
	}
	it.Init(c.Comparer)
	defer it.Close()
	if !it.Merges() { // twins are in different runs
		return nil
	}
	faults := map[string]uint64{}
	var meter Meter
	for ok := it.First(); ok; ok = it.Next() {
		if meter.Due(len(it.Key())+len(it.Value())) && ctx.Err() != nil {
			return ctx.Err()
		}
		if !it.TwinFollows() {
			continue
		}
		c.report.Twins++
		if name, other, differ := it.TwinSources(); differ {
			faults[name+" and "+other]++
		}
	}
	var lines []string
	for names, n := range faults {
		lines = append(lines, fmt.Sprintf("%s have different values for %d keys with the same sequence numbers", names, n))
	}
	slices.Sort(lines)
	c.report.Faults = append(c.report.Faults, lines...)
	if err := it.Err(); err != nil {
		if c.Closed() {
			return base.ErrClosed
		}
		c.report.Faults = append(c.report.Faults, fmt.Sprintf("reading all tables in key order: %v", err))
	}
	return nil
}
