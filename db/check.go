package db

import (
	"context"
	"io"
	"slices"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/disk/check"
	"github.com/sievedb/sievedb/internal/disk/wal"
	"github.com/sievedb/sievedb/vfs"
)

// Check reads every table of the database and compares it with the MANIFEST: checksums, the order of keys, the range of
// each table. It looks each key up through the table's filter and index, and through every other filter of a known
// policy, also those that lookups do not use: second filters, filters of block ranges, range filters. A filter that is
// damaged, or that denies a key of its table, is a fault, and so are damaged properties. Check continues after a
// damaged block, and after a damaged table. Then it merges all sound tables to find entries that several of them
// contain with different values. What Open found to be lost in the logs (OpenReport.Losses) is a fault too, until the
// database is opened again after Open has written its new state, and so is a recorded option that cannot be read. A
// fault that says "written by a newer version" (ErrNewer) is no damage: use that version, and do not repair. The error
// says what kept Check from reading; faults are not errors.
func (d *DB) Check(ctx context.Context) (*CheckReport, error) {
	if err := d.guardUnder(ctx, "Check", 0); err != nil {
		return nil, err
	}
	s := d.finder.Ref()
	defer s.Version.Unref()
	report, err := check.Tables(ctx, s.Version, check.Options{
		Cache: d.tables, Comparer: d.opts.Comparer, Policies: d.opts.checkPolicies(), Closed: d.closed.Load,
	})
	if report != nil {
		report.Faults = append(append(slices.Clone(d.report.Losses), d.recordFaults()...), report.Faults...)
	}
	return (*CheckReport)(report), err
}

// CheckLog reads the records of a log, to which the owner of the database may be appending, as far as there are some.
// The error is ErrCorruption if a record is damaged, ErrNewer if a later version wrote it, or that of log. A last
// record that is not complete, and what the records contain, are no errors. CheckLog does not close log.
func CheckLog(log vfs.File) error {
	size, err := log.Size()
	if err != nil {
		return err
	}
	r := wal.NewReader(log, size, wal.ReaderOptions{Last: true, Live: true})
	for err == nil {
		_, err = r.Next()
	}
	if err == io.EOF {
		return nil
	}
	return err
}

// checkPolicies returns the policies of the filters that Check and Repair use: all known
// ones, even if lookups use none.
func (o *Options) checkPolicies() []filter.Policy {
	if o.Filters.Policy == filter.None {
		known := *o
		known.Filters.Policy = defaultFilter
		return known.readPolicies()
	}
	return o.readPolicies()
}
