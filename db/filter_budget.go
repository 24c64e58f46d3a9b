package db

import (
	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/filterplan"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/disk/tables"
	"github.com/sievedb/sievedb/internal/disk/version"
)

func (o *Options) validateFilterBudget() error {
	if o.Filters.Budget < 0 {
		return errors.Newf("sievedb: Options.Filters.Budget is %d; it must be 0, for none, or a number of bytes", o.Filters.Budget)
	}
	if !(o.Filters.MaxWastedReads >= 0 && o.Filters.MaxWastedReads < 1) { // false for NaN, too
		return errors.Newf("sievedb: Options.Filters.MaxWastedReads is %g; it must be 0, for no bound, or reads a lookup below 1, as 0.02 for two in a hundred lookups", o.Filters.MaxWastedReads)
	}
	if o.Filters.Budget > 0 && o.Filters.MaxWastedReads > 0 {
		return errors.New("sievedb: Options.Filters.Budget and Options.Filters.MaxWastedReads exclude each other")
	}
	plan := o.filterPlanOptions()
	if _, ok := filter.WithBitsPerKey(o.Filters.Policy, 1); plan.HasBudget() && !ok {
		return errors.Newf("sievedb: Options.Filters.Budget and Options.Filters.MaxWastedReads choose the bits a key of filter.BloomPolicy or FusePolicy, "+
			"but lookups ask filters of Options.Filters.Policy, %q; unset one of the two", o.Filters.Policy.Name())
	}
	return nil
}

// filterPlanOptions returns the options of the filter plan. o has all defaults filled in.
func (o *Options) filterPlanOptions() filterplan.Options {
	plan := filterplan.Options{
		Filter: o.Filters.Policy, Budget: o.Filters.Budget, MaxWastedReads: o.Filters.MaxWastedReads,
		L0CompactionTrigger: o.Compaction.L0Trigger, WriteBufferSize: o.Memtables.Size, MaxLevelBase: o.Compaction.MaxLevelBase,
	}
	if o.Filters.Policy == defaultFilter {
		plan.DefaultBits = defaultFilterBits
	}
	return plan
}

// plannedTables gives the filter plan what it needs to know about tables.
type plannedTables struct {
	set   *manifest.Set
	cache *tables.Cache
}

func (t plannedTables) RefCurrent() *version.Version { return t.set.RefCurrent() }

func (t plannedTables) Sizes(f *version.FileMeta) (filterplan.Sizes, bool) {
	if s := tables.Of(f).FilterSizes(); s != nil {
		return filterplan.Sizes(*s), true
	}
	return filterplan.Sizes{}, false
}

func (t plannedTables) Learn(f *version.FileMeta) {
	if r, err := t.cache.Ref(f); err == nil {
		r.Unref()
	}
}
