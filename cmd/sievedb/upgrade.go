package main

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/filter"
)

// filterKinds are the words for -filter.
var filterKinds = map[string]func(bitsPerKey int) filter.Policy{
	"both":      func(bits int) filter.Policy { return filter.NewDualBloomPolicy(bits) },
	"cacheline": func(bits int) filter.Policy { return filter.NewCacheLineBloomPolicy(bits) },
	"leveldb":   func(bits int) filter.Policy { return filter.NewBloomPolicy(bits) },
	"fuse":      func(int) filter.Policy { return filter.FusePolicy{} },
}

// upgradeFilters gives all tables new filters, or reports what that would cost and save.
func upgradeFilters(c *call) (int, error) {
	kind, ok := filterKinds[c.flags.filter]
	if !ok {
		return exitUsage, fmt.Errorf("sievedb: -filter %q; want one of %s", c.flags.filter, strings.Join(slices.Sorted(maps.Keys(filterKinds)), ", "))
	}
	if c.flags.bits < 1 || c.flags.bits > 64 {
		return exitUsage, errors.New("sievedb: -bits must be 1 to 64")
	}
	if !(c.flags.rate >= 0 && c.flags.rate <= 1<<30) { // false for NaN, too
		return exitUsage, fmt.Errorf("sievedb: -rate is %v; want MiB a second, or 0 for no limit", c.flags.rate)
	}
	o := &db.UpgradeOptions{DryRun: c.flags.dryRun, BytesPerSecond: int64(math.Ceil(c.flags.rate * (1 << 20)))}
	// Tables that compactions write meanwhile get the same filters.
	open := &db.Options{Filters: db.FilterOptions{Policy: kind(c.flags.bits)}, ReadOnly: c.flags.dryRun, ErrorIfMissing: true}
	return c.withOptions(open, func(store *db.DB) (int, error) {
		r, err := store.UpgradeFilters(c.ctx, nil, o)
		if perr := printUpgrade(c, &r, err); err == nil {
			err = perr
		}
		return codeOf(err), err
	})
}

func printUpgrade(c *call, r *db.UpgradeReport, err error) error {
	did, copied := "upgraded", "copied"
	if c.flags.dryRun {
		did, copied = "to upgrade", "to be copied"
	}
	w := tabwriter.NewWriter(c.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "tables\t%d: %d %s, %d have these filters, %d damaged", r.Tables, r.Upgraded, did, r.Current, r.Damaged)
	switch rest := r.Tables - r.Upgraded - r.Current - r.Damaged; {
	case rest > 0 && (err == nil || errors.Is(err, db.ErrCorruption)):
		fmt.Fprintf(w, ", %d compacted meanwhile", rest)
	case rest > 0:
		fmt.Fprintf(w, ", %d not done", rest)
	}
	fmt.Fprintln(w)
	fmt.Fprintf(w, "%s\t%d bytes\n", copied, r.Bytes)
	fmt.Fprintf(w, "their filters\t%d bytes before, %d after\n", r.FilterBytesBefore, r.FilterBytesAfter)
	fmt.Fprintf(w, "expected wasted disk reads for 1,000 absent keys\t%.1f before, %.1f after\n", 1000*r.WastedReadsBefore, 1000*r.WastedReadsAfter)
	fmt.Fprintf(w, "time\t%v\n", r.Duration.Round(1e6))
	if c.flags.dryRun && r.Upgraded > 0 {
		fmt.Fprintln(w, "nothing was changed; run the same command without -n to do it")
	}
	return w.Flush()
}
