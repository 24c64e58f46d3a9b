package db

import (
	"context"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/check"
)

// CheckReport is what Check went through.
type CheckReport struct {
	// Tables, Entries and Bytes count what was read.
	Tables  int
	Entries uint64
	Bytes   uint64
	// Twins counts entries that another table holds as well, under the same internal
	// key. They are garbage that goleveldb's RecoverFile and LevelDB's RepairDB leave,
	// and that compactions drop. Where the values differ it is a fault.
	Twins uint64
	// Faults lists what is wrong, a message each; empty for a sound database.
	Faults []string
}

// Check reads every table of the database and compares it with what the
// MANIFEST says: checksums, the order of keys, the range of each table. It looks each
// key up through the table's filter and index, and asks every filter of a known policy
// for it, also those that lookups do not ask: second filters, filters of block ranges,
// filters of ranges. A filter that is damaged, or that denies a key of its table, is a
// fault. Check continues after a damaged table. Then it reads all sound tables again, side
// by side, for entries that several of them hold with different values. The error is for
// what kept it from looking, not for faults found.
func (d *DB) Check(ctx context.Context) (*CheckReport, error) {
	if d == nil || d.closed.Load() {
		return nil, ErrClosed
	}
	if ctx == nil {
		return nil, errNilContext("Check")
	}
	s := d.refState()
	defer s.version.Unref()
	report, err := check.Tables(ctx, s.version, check.Options{
		Cache: d.tables, Comparer: d.cmp, Policies: d.opts.checkPolicies(), Closed: d.closed.Load,
	})
	return (*CheckReport)(report), err
}

// checkPolicies returns the policies of the filters that Check and Repair ask: those that are
// known also where lookups ask none.
func (o *Options) checkPolicies() []filter.Policy {
	if o.Filters.Policy == filter.None {
		known := *o
		known.Filters.Policy = defaultFilter
		return known.readPolicies()
	}
	return o.readPolicies()
}
