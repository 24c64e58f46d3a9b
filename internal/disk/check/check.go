package check

import (
	"context"
	"fmt"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/disk/tables"
	"github.com/sievedb/sievedb/sstable"
)

// Options are the parts of a store that a check uses.
type Options struct {
	Cache    *tables.Cache
	Comparer *base.Comparer
	// Policies are the policies of the filters to check, even if lookups use none.
	Policies []filter.Policy
	// Closed reports whether the store is closed; a table that cannot be read then may be intact.
	Closed func() bool
}

// Report is the result of a check. db.CheckReport, which has the same fields, documents them.
type Report struct {
	Tables  int
	Entries uint64
	Bytes   uint64
	Twins   uint64
	Faults  []string
}

// checker is one run of a check.
type checker struct {
	Options
	report *Report
	values values
}

// Tables checks the tables of v one by one, and then compares the undamaged ones with each
// other. The error says why the check ended early; the report then has the tables checked so
// far.
func Tables(ctx context.Context, v *manifest.Version, o Options) (*Report, error) {
	c := &checker{Options: o, report: &Report{}, values: values{version: v, sums: map[uint64]uint64{}}}
	defer c.values.lookup.Release()
	var failed error
	damaged := map[*manifest.FileMeta]bool{}
	v.AllFiles(func(level int, f *manifest.FileMeta) {
		if failed != nil {
			return
		}
		if failed = ctx.Err(); failed != nil {
			return
		}
		c.report.Tables++
		c.report.Bytes += f.Size
		switch err := c.table(ctx, level, f); {
		case err == nil:
		case ctx.Err() != nil:
			failed = ctx.Err()
		case c.Closed(): // the table may be intact
			failed = base.ErrClosed
		default:
			damaged[f] = true
			c.report.Faults = append(c.report.Faults, fmt.Sprintf("%s%s: %v", levelWords(level), f.Name(), err))
		}
	})
	if failed == nil {
		c.valueCounts(damaged)
		failed = c.twins(ctx, v, damaged)
	}
	return c.report, failed
}

// readAhead is the number of bytes read at a time: enough to make the disk's latency
// insignificant.
const readAhead = 256 << 10

// table reads all entries of f and checks that lookups find them.
func (c *checker) table(ctx context.Context, level int, f *manifest.FileMeta) error {
	r, err := c.Cache.Ref(f)
	if err != nil {
		return err
	}
	defer r.Unref()
	c.values.begin()
	err = Reader(ctx, r, c.Options, func(ikey, value []byte) error {
		if base.CompareInternal(c.Comparer, ikey, f.Smallest) < 0 || base.CompareInternal(c.Comparer, ikey, f.Largest) > 0 {
			return errors.New("it has a key outside its range in the MANIFEST")
		}
		if level == manifest.ValuesLevel { // the tables of the levels have its keys
			return nil
		}
		c.report.Entries++
		return c.reference(ikey, value)
	})
	if err == nil {
		err = c.values.end(r)
	}
	if err == nil && level == manifest.ValuesLevel {
		err = c.Cache.CheckIDs(c.values.version, f)
	}
	return err
}

// Reader reads the properties and all entries of a table, checks that a lookup finds each key and that no filter denies
// it, and calls fn for each entry. The slices are valid during the call. It uses the Comparer and the Policies of o, and
// returns the first fault, the first error of fn, or that of ctx. The time is proportional to the bytes that the entries
// have, keys counted in full; see sstable.Iter.CheckLookup.
func Reader(ctx context.Context, r *sstable.Reader, o Options, fn func(ikey, value []byte) error) error {
	filters, err := r.FiltersToCheck(o.Policies)
	if err != nil {
		return err
	}
	if _, _, err := r.CheckProperties(); err != nil {
		return err
	}
	it, err := r.NewIter(sstable.IterOptions{NoFillCache: true, ReadAhead: readAhead})
	if err != nil {
		return err
	}
	defer it.Close()
	var lookup sstable.Lookup
	defer lookup.Release()
	var prev []byte
	var meter Meter
	for ok := it.First(); ok; ok = it.Next() {
		ikey, value := it.Key(), it.Value()
		if meter.Due(len(ikey)+len(value)) && ctx.Err() != nil {
			return ctx.Err()
		}
		if prev != nil && base.CompareInternal(o.Comparer, prev, ikey) >= 0 {
			return errors.New("the keys are not in ascending order")
		}
		if prev != nil && base.SameVersion(o.Comparer, prev, ikey) {
			return errors.New("it has two entries of a key with the same sequence number")
		}
		prev = append(prev[:0], ikey...)
		if err := fn(ikey, value); err != nil {
			return err
		}
		if err := it.CheckLookup(&lookup); err != nil {
			return err
		}
		if name, denied := filters.Denies(base.UserKey(ikey), it.BlockOffset()); denied {
			return errors.Newf("its filter %q denies a key of the table", name)
		}
	}
	return it.Err()
}

// Meter says when a walk must look whether it should end. It counts bytes, because the time that an entry takes depends
// on its length. The zero Meter is ready.
type Meter struct{ bytes int }

const (
	meterBytes = 1 << 20 // between two looks; milliseconds of work
	meterEntry = 256     // bytes for which an entry counts in addition to its own
)

// Due counts an entry with that many bytes, and reports whether it is time to look.
func (m *Meter) Due(bytes int) bool {
	if m.bytes += bytes + meterEntry; m.bytes < meterBytes {
		return false
	}
	m.bytes = 0
	return true
}
