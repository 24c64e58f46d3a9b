package db

import (
	"context"

	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/read/counters"
	"github.com/sievedb/sievedb/internal/work/filterreport"
)

// Filters reports on the filters of all tables. probes is the number of absent keys with
// which each table's filter is probed, if the table has gaps for that many, and the maximum
// number of its own keys. Some thousand probes measure a rate of one in a hundred to a third.
//
// With probes 0 nothing is probed, and only tables that lookups have opened are examined; of those, only the properties
// are read, once. The verdicts then depend on predictions. Otherwise each table is opened and some of its blocks are
// read from disk, without the block cache, and Metrics counts none of it. A damaged table is reported as such. The
// error says that the store is closed or the context is done; the report has the tables until then.
func (d *DB) Filters(ctx context.Context, probes int) (*FilterReport, error) {
	if err := d.guardUnder(ctx, "Filters", 0); err != nil {
		return nil, err
	}
	if probes < 0 {
		return nil, errors.Newf("sievedb: Filters: %d probes; want 0, which probes nothing, or more", probes)
	}
	s := d.finder.Ref()
	defer s.Version.Unref()
	return filterreport.Examine(ctx, s.Version, filterreport.Options{
		Cache: d.tables, Comparer: d.opts.Comparer, Closed: d.closed.Load, Probes: probes,
		Counts: filterCounts(d.lookupTotals()), SampledOneIn: counters.SampledOneIn,
	})
}

// filterCounts returns what a report on filters needs of the store's counters.
func filterCounts(t *counters.Totals) *filterreport.Counts {
	c := &filterreport.Counts{Gets: t.Gets}
	for level := range t.Levels {
		l := &t.Levels[level]
		c.Levels[level] = filterreport.LevelCounts{
			Reads:  l.Reads(),
			Keys:   filterreport.Verdicts{Negatives: l.FilterNegatives, TruePositives: l.FilterTruePositives, FalsePositives: l.FilterFalsePositives},
			Ranges: filterreport.Verdicts{Negatives: l.RangeNegatives, TruePositives: l.RangeTruePositives, FalsePositives: l.RangeFalsePositives},
		}
	}
	return c
}
