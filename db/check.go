package db

import (
	"context"
	"fmt"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/errors"
	"github.com/sievedb/sievedb/internal/manifest"
	"github.com/sievedb/sievedb/sstable"
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
	report := &CheckReport{}
	var failed error
	damaged := map[*manifest.FileMeta]bool{}
	s.version.Files(func(level int, f *manifest.FileMeta) {
		if failed != nil {
			return
		}
		if failed = ctx.Err(); failed != nil {
			return
		}
		report.Tables++
		report.Bytes += f.Size
		switch err := d.checkTable(ctx, f, report); {
		case err == nil:
		case ctx.Err() != nil:
			failed = ctx.Err()
		case d.closed.Load(): // the table may be sound
			failed = ErrClosed
		default:
			damaged[f] = true
			report.Faults = append(report.Faults, fmt.Sprintf("level %d, %s: %v", level, f.Name(), err))
		}
	})
	if failed == nil {
		failed = d.findTwins(ctx, s.version, damaged, report)
	}
	return report, failed
}

// checkReadAhead is how much of a table Check reads at once, in bytes: enough that the
// disk's latency hardly counts.
const checkReadAhead = 256 << 10

// checkTable walks f and looks each of its keys up.
func (d *DB) checkTable(ctx context.Context, f *manifest.FileMeta, report *CheckReport) error {
	r, err := d.tables.Ref(f)
	if err != nil {
		return err
	}
	defer r.Unref()
	filters, err := r.FiltersToCheck(d.opts.checkPolicies())
	if err != nil {
		return err
	}
	it, err := r.NewIter(sstable.IterOptions{NoFillCache: true, ReadAhead: checkReadAhead})
	if err != nil {
		return err
	}
	defer it.Close()
	var prev []byte
	for ok := it.First(); ok; ok = it.Next() {
		ikey := it.Key()
		if prev != nil && base.CompareInternal(d.cmp, prev, ikey) >= 0 {
			return errors.New("its keys do not ascend")
		}
		if prev != nil && base.SameVersion(d.cmp, prev, ikey) {
			return errors.New("it holds two entries of one key with the same sequence number")
		}
		if base.CompareInternal(d.cmp, ikey, f.Smallest) < 0 || base.CompareInternal(d.cmp, ikey, f.Largest) > 0 {
			return errors.New("it holds a key outside the range that the MANIFEST gives")
		}
		prev = append(prev[:0], ikey...)
		report.Entries++
		if report.Entries%4096 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if err := checkLookup(r, ikey); err != nil {
			return err
		}
		if name, denied := filters.Denies(base.UserKey(ikey), it.BlockOffset()); denied {
			return errors.Newf("its filter %q denies a key that it holds", name)
		}
	}
	return it.Err()
}

// checkPolicies returns the policies of the filters that Check and Repair ask: those that are
// known also where lookups ask none.
func (o *Options) checkPolicies() []filter.Policy {
	if o.Filter == filter.None {
		known := *o
		known.Filter = defaultFilter
		return known.readPolicies()
	}
	return o.readPolicies()
}

// checkLookup makes sure that a lookup finds the entry ikey of its own table.
func checkLookup(r *sstable.Reader, ikey []byte) error {
	var lookup sstable.Lookup
	defer lookup.Release()
	lookup.Init(base.UserKey(ikey), base.Trailer(ikey)>>8)
	res, err := r.Get(&lookup)
	switch {
	case err != nil:
		return err
	case res.Filter == sstable.FilterNegative:
		return errors.New("its filter denies a key that it holds")
	case !res.Found || res.Trailer != base.Trailer(ikey):
		return errors.New("a lookup does not find a key that a walk shows")
	}
	return nil
}

// TableInfo describes a table, for tools.
type TableInfo struct {
	Level   int
	FileNum uint64
	Name    string
	Bytes   uint64
	// Smallest and Largest are the user keys at the ends of its range; copies.
	Smallest, Largest []byte
	// Entries and Deletions count its entries and the tombstones among them; -1
	// where the table, written by another program, does not say.
	Entries, Deletions int64
	// Filter is how its filter is used, in words, and FilterPolicy the filter's
	// name; FilterBytes is what it holds in memory.
	Filter, FilterPolicy string
	FilterBytes          uint64
}

// Tables describes every table, level by level. It opens each of them.
func (d *DB) Tables() ([]TableInfo, error) {
	if d == nil || d.closed.Load() {
		return nil, ErrClosed
	}
	s := d.refState()
	defer s.version.Unref()
	var infos []TableInfo
	var failed error
	s.version.Files(func(level int, f *manifest.FileMeta) {
		info := TableInfo{
			Level: level, FileNum: f.Num, Name: f.Name(), Bytes: f.Size, Entries: -1, Deletions: -1,
			Smallest: append([]byte{}, base.UserKey(f.Smallest)...), Largest: append([]byte{}, base.UserKey(f.Largest)...),
		}
		r, err := d.tables.Ref(f)
		if err != nil {
			failed = errors.CombineErrors(failed, err)
			info.Filter = "the table cannot be opened"
			infos = append(infos, info)
			return
		}
		defer r.Unref()
		if p, ok := r.Properties(); ok {
			info.Entries, info.Deletions = int64(p.Entries), int64(p.Deletions)
		}
		status := r.FilterStatus()
		info.Filter, info.FilterPolicy, info.FilterBytes = status.State.String(), status.Policy, r.FilterSize()
		infos = append(infos, info)
	})
	return infos, failed
}
