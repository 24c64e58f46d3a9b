package main

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/filter"
)

// filterKinds are the words for --filter.
var filterKinds = map[string]func(bitsPerKey int) filter.Policy{
	"both":      func(bits int) filter.Policy { return filter.NewDualBloomPolicy(bits) },
	"cacheline": func(bits int) filter.Policy { return filter.NewCacheLineBloomPolicy(bits) },
	"leveldb":   func(bits int) filter.Policy { return filter.NewBloomPolicy(bits) },
	"fuse":      func(bits int) filter.Policy { return filter.NewFusePolicy(bits) },
}

type upgradeFlags struct {
	tableFlags
	filter string
	rate   float64
	dryRun bool
	given  *pflag.FlagSet
}

func (u *upgradeFlags) add(f *pflag.FlagSet) {
	u.tableFlags.add(f)
	f.StringVar(&u.filter, "filter", "", "both (cacheline and leveldb), cacheline, leveldb, or fuse, "+
		"whose --bits are those of a slot, at most 16, or 8 (default: as recorded, or both)")
	u.given = f
	f.Float64Var(&u.rate, "rate", 0, "copy at most this many MiB a second (0: no limit)")
	f.BoolVarP(&u.dryRun, "dry-run", "n", false, "change nothing, and report what would be done")
}

// options checks the flags.
func (u *upgradeFlags) options() (open *db.Options, o *db.UpgradeOptions, err error) {
	if u.filter == "" && u.given.Changed("bits") {
		u.filter = "both"
	}
	kind, ok := filterKinds[u.filter]
	if !ok && u.filter != "" {
		return nil, nil, misuse("--filter %q; want one of %s", u.filter, strings.Join(slices.Sorted(maps.Keys(filterKinds)), ", "))
	}
	if u.filter == "fuse" && u.bits > filter.MaxFuseBits {
		return nil, nil, misuse("--bits is %d; --filter fuse wants 1 to %d, the bits of a slot", u.bits, filter.MaxFuseBits)
	}
	policies, err := u.policies()
	if err != nil {
		return nil, nil, err
	}
	if !(u.rate >= 0 && u.rate <= 1<<30) { // false for NaN, too
		return nil, nil, misuse("--rate is %v; want MiB a second, or 0 for no limit", u.rate)
	}
	o = &db.UpgradeOptions{DryRun: u.dryRun, BytesPerSecond: int64(math.Ceil(u.rate * (1 << 20)))}
	// Tables that compactions write meanwhile get the same filters.
	open = &db.Options{
		Filters:  db.FilterOptions{RangePolicies: policies},
		ReadOnly: u.dryRun, ErrorIfMissing: true,
	}
	if ok {
		bits := u.bits
		if u.filter == "fuse" && !u.given.Changed("bits") {
			bits = filter.FusePolicy{}.SlotBits() // the default of --bits is that of bloom filters
		}
		open.Filters.Policy = kind(bits)
	}
	return open, o, nil
}

// upgradeFilters gives all tables new filters, or reports what that would cost and save.
func (a *app) upgradeFilters(args []string, flags *upgradeFlags) error {
	open, o, err := flags.options()
	if err != nil {
		return err
	}
	return a.open(args[0], open, func(store *db.DB) error {
		p := a.progressTo("upgrading filters", "table", uint64(store.Metrics().Total().Tables))
		o.Progress = func(r db.UpgradeReport) {
			p.done, p.bytes = uint64(r.Upgraded+r.Current+r.Damaged), r.Bytes
			p.add(0, 0)
		}
		r, err := store.UpgradeFilters(a.ctx, nil, o)
		p.close()
		perr := a.out.result(r, func() { a.printUpgrade(&r, flags.dryRun, err) })
		if err == nil {
			err = perr
		}
		return err
	})
}

func (a *app) printUpgrade(r *db.UpgradeReport, dryRun bool, err error) {
	did, copied := "upgraded", "copied"
	if dryRun {
		did, copied = "to upgrade", "to be copied"
	}
	tables := fmt.Sprintf("%d: %d %s, %d have these filters, %d damaged", r.Tables, r.Upgraded, did, r.Current, r.Damaged)
	switch rest := r.Tables - r.Upgraded - r.Current - r.Damaged; {
	case rest > 0 && (err == nil || errors.Is(err, db.ErrCorruption)):
		tables += fmt.Sprintf(", %d compacted meanwhile", rest)
	case rest > 0:
		tables += fmt.Sprintf(", %d not done", rest)
	}
	a.out.pairs("tables", tables, copied, size(r.Bytes),
		"their filters before", size(r.FilterBytesBefore), "their filters after", size(r.FilterBytesAfter),
		"expected wasted disk reads for 1,000 absent keys", fmt.Sprintf("%.1f before, %.1f after", 1000*r.WastedReadsBefore, 1000*r.WastedReadsAfter),
		"time", r.Duration)
	if dryRun && r.Upgraded > 0 {
		a.out.printf("nothing was changed; run the same command without --dry-run to do it\n")
	}
}
