package db

import (
	"slices"

	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/sstable"
)

func (o *Options) validateRangeFilters() error {
	if n := len(o.Filters.RangePolicies); n > sstable.MaxRangePolicies {
		return errors.Newf("sievedb: Options.Filters.RangePolicies has %d policies; at most %d are supported", n, sstable.MaxRangePolicies)
	}
	var names []string
	for i, p := range o.Filters.RangePolicies {
		if p == nil {
			return errors.Newf("sievedb: Options.Filters.RangePolicies[%d] is nil", i)
		}
		if p.Name() == "" {
			return errors.Newf("sievedb: Options.Filters.RangePolicies[%d] has no Name; the name identifies its filters", i)
		}
		if n := len(p.Name()); n > manifest.MaxFilterName {
			return errors.Newf("sievedb: Options.Filters.RangePolicies[%d] has a Name of %d bytes; at most %d are supported", i, n, manifest.MaxFilterName)
		}
		names = append(names, p.Name())
	}
	slices.Sort(names)
	if len(slices.Compact(names)) < len(o.Filters.RangePolicies) {
		return errors.New("sievedb: Options.Filters.RangePolicies has two policies of one name; a table has one filter of each")
	}
	if len(o.Filters.RangePolicies) > 0 && !o.Comparer.IsBytewise() {
		return errors.Newf("sievedb: Options.Filters.RangePolicies go by the order of bytes, but Options.Comparer is %q; unset one of the two", o.Comparer.Name)
	}
	return nil
}
