package check

import (
	"context"
	"fmt"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/tables"
	"github.com/sievedb/sievedb/internal/disk/version"
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
	// Fault, if not nil, is called for each fault of a table. If it returns nil, the check of the table goes on. The
	// default ends it with the fault.
	Fault func(error) error
}

// Report is the result of a check. db.CheckReport, which has the same fields, documents them.
type Report struct {
	Tables  int
	Entries uint64
	Bytes   uint64
	Unread  uint64
	Twins   uint64
	Faults  []string
}

// checker is one run of a check.
type checker struct {
	Options
	report  *Report
	values  values
	damaged map[*version.FileMeta]bool
}

// Tables checks the tables of v one by one, and then compares the undamaged ones with each other. The error says why
// the check ended early; the report then has the tables checked so far.
func Tables(ctx context.Context, v *version.Version, o Options) (*Report, error) {
	c := &checker{Options: o, report: &Report{}, values: values{version: v, sums: map[uint64]uint64{}}}
	c.damaged = map[*version.FileMeta]bool{}
	defer c.values.lookup.Release()
	var failed error
	v.AllFiles(func(level int, f *version.FileMeta) {
		if failed == nil {
			failed = ctx.Err()
		}
		if failed == nil {
			c.report.Tables++
			failed = c.table(ctx, level, f)
		}
	})
	if failed == nil {
		c.valueCounts()
		failed = c.twins(ctx, v)
	}
	return c.report, failed
}

// readAhead is the number of bytes read at a time: enough to make the disk's latency insignificant.
const readAhead = 256 << 10

// maxFaults is how many faults of a table are reported one by one.
const maxFaults = 100

// table checks a table. The error says why the check must end.
func (c *checker) table(ctx context.Context, level int, f *version.FileMeta) error {
	seen, more := map[string]bool{}, uint64(0)
	fault := func(text string) {
		c.report.Faults = append(c.report.Faults, fmt.Sprintf("%s%s: %s", levelWords(level), f.Name(), text))
	}
	c.Fault = func(err error) error {
		if err == errOrder {
			err = errors.Newf("%v%s", err, base.OtherOrder(c.Comparer))
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case c.Closed(): // the table may be intact
			return base.ErrClosed
		case seen[err.Error()]:
		case len(seen) == maxFaults:
			more++
		default:
			seen[err.Error()] = true
			fault(err.Error())
		}
		c.damaged[f] = true
		return nil
	}
	err := c.read(ctx, level, f)
	if err != nil {
		err = c.Fault(err)
	}
	if more > 0 {
		fault(fmt.Sprintf("it has %d more faults", more))
	}
	return err
}

// read reads all entries of f and checks that lookups find them.
func (c *checker) read(ctx context.Context, level int, f *version.FileMeta) error {
	r, err := c.Cache.Ref(f)
	if err != nil {
		return err
	}
	defer r.Unref()
	c.values.begin()
	entries := uint64(0)
	err = Reader(ctx, r, c.Options, func(ikey, value []byte) error {
		entries++
		if base.CompareInternal(c.Comparer, ikey, f.Smallest) < 0 || base.CompareInternal(c.Comparer, ikey, f.Largest) > 0 {
			return errors.New("it has a key outside its range in the MANIFEST")
		}
		if level == version.ValuesLevel { // the tables of the levels have its keys
			return nil
		}
		return c.reference(ikey, value)
	})
	if p, _ := r.Properties(); c.damaged[f] && p.Entries > entries && level != version.ValuesLevel {
		c.report.Unread += p.Entries - entries
	}
	if level != version.ValuesLevel {
		c.report.Entries += entries
	}
	if err != nil {
		return err
	}
	c.report.Bytes += f.Size
	if level == version.ValuesLevel {
		return c.Cache.CheckIDs(c.values.version, f)
	}
	if c.damaged[f] {
		return nil
	}
	return c.values.end(r)
}

// Reader reads the properties and all entries of a table, checks that a lookup finds each key and that no filter denies
// it, and calls fn for each entry. The slices are valid during the call. It uses Comparer, Policies and Fault of o. An
// error of fn is a fault too. Reader returns the first fault, or what Fault returned for one, or the error of ctx. The
// time is proportional to the bytes that the entries have, keys counted in full; see sstable.Iter.CheckLookup.
func Reader(ctx context.Context, r *sstable.Reader, o Options, fn func(ikey, value []byte) error) error {
	if o.Fault == nil {
		o.Fault = func(err error) error { return err }
	}
	filters, err := r.FiltersToCheck(o.Policies)
	if err != nil {
		err = o.Fault(err)
	}
	if err != nil {
		return err
	}
	if _, _, err := r.CheckProperties(); err != nil {
		if err = o.Fault(err); err != nil {
			return err
		}
	}
	w := walk{o: o, filters: filters, fn: fn}
	if w.it, err = r.NewIter(sstable.IterOptions{NoFillCache: true, ReadAhead: readAhead}); err != nil {
		return err
	}
	defer w.it.Close()
	defer w.lookup.Release()
	var meter Meter
	for ok := w.it.First(); ok || w.it.Err() != nil; {
		if err = w.it.Err(); err == nil {
			err = w.entry(w.it.Key(), w.it.Value())
		}
		if err != nil {
			err = o.Fault(err)
		}
		if err != nil {
			return err
		}
		if !ok {
			ok = w.it.SkipDamage()
			continue
		}
		if meter.Due(len(w.it.Key())+len(w.it.Value())) && ctx.Err() != nil {
			return ctx.Err()
		}
		ok = w.it.Next()
	}
	return nil
}

var errOrder = errors.Sentinel("the keys are not in ascending order")

// walk is the state of Reader.
type walk struct {
	o       Options
	it      *sstable.Iter
	filters sstable.FilterSet
	lookup  sstable.Lookup
	prev    []byte // the last key
	fn      func(ikey, value []byte) error
}

// entry checks an entry.
func (w *walk) entry(ikey, value []byte) error {
	var err error
	switch {
	case w.prev == nil:
	case base.CompareInternal(w.o.Comparer, w.prev, ikey) >= 0:
		err = errOrder
	case base.SameVersion(w.o.Comparer, w.prev, ikey):
		err = errors.New("it has two entries of a key with the same sequence number")
	}
	w.prev = append(w.prev[:0], ikey...)
	if err != nil {
		return err
	}
	if err := w.fn(ikey, value); err != nil {
		return err
	}
	if err := w.it.CheckLookup(&w.lookup); err != nil {
		return err
	}
	if name, denied := w.filters.Denies(base.UserKey(ikey), w.it.BlockOffset()); denied {
		return errors.Newf("its filter %q denies a key of the table", name)
	}
	return nil
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
