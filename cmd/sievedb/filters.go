package main

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/report"
)

func (a *app) filterVerbs() []*verb {
	var ranges tableFlags
	var probes int
	var plan planFlags
	var upgrade upgradeFlags
	var endChanges, yes bool
	return []*verb{
		{use: "options DIR", group: groupInspect, min: 1, max: 1, short: "Print the options that a database has recorded",
			long: "Print the options that a database has recorded: those of the last program that opened it for writing, as far as they\n" +
				"decide what files look like and what is kept. Defaults are left out. Verbs that write use them; flags override them\n" +
				"for one run. --end-changes lets the database keep no more changes.",
			flags: func(f *pflag.FlagSet) {
				f.BoolVar(&endChanges, "end-changes", false, "remove the history of changes and its cursors, and keep none from now on")
				f.BoolVar(&yes, "yes", false, "do it")
			},
			run: func(args []string) error { return a.options(args, endChanges, yes) }},
		{use: "filters DIR", group: groupInspect, min: 1, max: 1, short: "Measure the filter of each table, and say what to do about it",
			long: "Measure the filter of each table with absent keys, compare the rate of false positives with the\nexpected one, and say what to do about it.",
			flags: func(f *pflag.FlagSet) {
				ranges.add(f)
				f.Lookup("ranges").Usage = "use these range filters, by name, separated by commas"
				f.IntVar(&probes, "probes", 4000, "probe each table's filter with this many absent keys")
			},
			run: func(args []string) error { return a.filters(args, probes, &ranges) }},
		{use: "plan", group: groupInspect, noDir: true, flags: plan.add, short: "Calculate what filters would use and save",
			long: "Calculate what filters would use and save in a database of a given size, before there is any data.",
			run:  func([]string) error { return a.plan(&plan) }},
		{use: "upgrade-filters DIR", group: groupMaintain, min: 1, max: 1, flags: upgrade.add, short: "Give every table new filters without a compaction",
			long:       "Give every table new filters without a compaction. --dry-run only reports what that would cost and save.",
			notInShell: "it needs the database opened with the new filters",
			run:        func(args []string) error { return a.upgradeFilters(args, &upgrade) }},
	}
}

// filters prints the report card of each table's filter, and their sums by level.
func (a *app) filters(args []string, probes int, flags *tableFlags) error {
	if probes < 1 {
		return misuse("--probes is %d; want 1 or more", probes)
	}
	policies, err := flags.policies()
	if err != nil {
		return err
	}
	o := &db.Options{ReadOnly: true, ErrorIfMissing: true, Filters: db.FilterOptions{RangePolicies: policies}}
	return a.open(args[0], o, func(store *db.DB) error {
		stop := a.waiting("probing filters", nil)
		r, err := store.Filters(a.ctx, probes)
		stop()
		if err != nil {
			return err
		}
		return a.out.result(r, func() { a.printFilters(r) })
	})
}

func (a *app) printFilters(r *db.FilterReport) {
	t := a.out.table("level", "table", "+~filter", "+filter bytes", "bits a key", "predicted", "measured", "+from", "+to", "+pays after", "~verdict")
	for i := range r.Tables {
		f := &r.Tables[i]
		t.row(append(append([]any{f.Level, f.Name, policyName(f)}, figures(&f.FilterFigures, f.Probes)...),
			repayment(f), withDetail(f.Verdict, f.Detail))...)
	}
	for _, l := range r.Levels {
		t.row(append(append([]any{l.Level, fmt.Sprintf("all %d", l.Tables), ""}, figures(&l.FilterFigures, l.Probes)...),
			"", verdictCounts(l.Verdicts))...)
	}
	t.print()
	a.printRanges(r)
	if a.out.people {
		a.printAdvice(r)
	}
}

// printRanges prints the range filters, if there are any, and their results for iterators.
func (a *app) printRanges(r *db.FilterReport) {
	t := a.out.table("level", "table", "~range filter", "bytes", "bits a key", "~verdict")
	for i := range r.Tables {
		for _, f := range r.Tables[i].Ranges {
			t.row(r.Tables[i].Level, r.Tables[i].Name, plainName(f.Policy), size(f.Bytes), figure(f.BitsPerKey), withDetail(f.Verdict, f.Detail))
		}
	}
	for _, l := range r.Levels {
		if l.RangeBytes > 0 {
			t.row(l.Level, fmt.Sprintf("all %d", l.Tables), "", size(l.RangeBytes), figure(l.RangeBitsPerKey), "")
		}
	}
	if len(t.Rows) > 0 {
		a.out.printf("\n")
		t.print()
	}
}

// figure is "?" for figures that are not known, which are 0.
func figure(n float64) string {
	if n == 0 {
		return "?"
	}
	return fmt.Sprintf("%.1f", n)
}

func withDetail(v report.FilterVerdict, detail string) string {
	if detail == "" {
		return string(v)
	}
	return string(v) + ": " + detail
}

func policyName(f *report.TableFilterReport) string {
	if f.Policy == "" {
		return f.Layout
	}
	return plainName(f.Policy) + ", " + f.Layout
}

// plainName returns a name from a file as it is, if a terminal can show it, otherwise quoted.
func plainName(name string) string {
	if q := strconv.Quote(name); q[1:len(q)-1] != name {
		return q
	}
	return name
}

// figures are the columns from the bytes to the measured rate's bounds.
func figures(f *report.FilterFigures, p report.FilterProbes) []any {
	columns := []any{size(f.FilterBytes), f.BitsPerKey, percent(f.Predicted)}
	if p.Absent == 0 {
		return append(columns, "?", "?", "?")
	}
	rate, low, high := p.Rate()
	return append(columns, percent(rate), percent(low), percent(high))
}

// percent is "?" for rates that are not known, which are negative.
func percent(rate float64) string {
	if rate < 0 {
		return "?"
	}
	return fmt.Sprintf("%.3f %%", 100*rate)
}

// repayment says after how many lookups the filter has saved what it uses.
func repayment(f *report.TableFilterReport) string {
	n := f.LookupsToRepay()
	if f.FilterBytes == 0 || math.IsInf(n, 1) {
		return "-"
	}
	return fmt.Sprintf("%.1f lookups", n)
}

func verdictCounts(verdicts map[report.FilterVerdict]int) string {
	var parts []string
	for _, v := range slices.Sorted(maps.Keys(verdicts)) {
		parts = append(parts, fmt.Sprintf("%d %s", verdicts[v], v))
	}
	return strings.Join(parts, ", ")
}

// printAdvice says what to do about each verdict in the report, and what the columns mean.
func (a *app) printAdvice(r *db.FilterReport) {
	all := map[report.FilterVerdict]int{}
	for _, f := range r.Tables {
		all[f.Verdict]++
		for _, ranges := range f.Ranges {
			if ranges.Verdict != report.VerdictGood {
				all[ranges.Verdict]++
			}
		}
	}
	a.out.printf("\n")
	for _, v := range slices.Sorted(maps.Keys(all)) {
		a.out.prose("%s (%d): %s", v, all[v], inVerbs(v.Advice()))
	}
	if len(r.Tables) > 0 {
		a.out.printf("\n")
		a.out.prose("predicted, measured: false-positive rate of the table's filter; each false positive wastes a block read")
		a.out.prose("from, to: interval of the true rate with 95 %% confidence; ?: unknown, as with few keys")
		a.out.prose("pays after: lookups of absent keys that save reading as many bytes as the filter has")
	}
}
