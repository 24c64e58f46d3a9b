package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"text/tabwriter"

	"github.com/sievedb/sievedb/db"
)

// filters prints the report card of each table's filter, and their sums by level.
func filters(c *call) (int, error) {
	if c.flags.probes < 1 {
		return exitUsage, errors.New("sievedb: -probes must be 1 or more")
	}
	return c.with(true, func(store *db.DB) (int, error) {
		r, err := store.Filters(c.ctx, c.flags.probes)
		switch {
		case err != nil:
		case c.flags.json:
			enc := json.NewEncoder(c.stdout)
			enc.SetIndent("", "  ")
			err = enc.Encode(r)
		default:
			err = printFilters(c.stdout, r)
		}
		return codeOf(err), err
	})
}

func printFilters(w io.Writer, r *db.FilterReport) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "level\ttable\tfilter\tfilter bytes\tbits a key\tpredicted\tmeasured\tfrom\tto\tpays after\tverdict")
	for i := range r.Tables {
		f := &r.Tables[i]
		fmt.Fprintf(t, "%d\t%s\t%s\t%s\t%s\t%s\n", f.Level, f.Name, policyName(f), figures(&f.FilterFigures, f.Probes), repayment(f), withDetail(f.Verdict, f.Detail))
	}
	for _, l := range r.Levels {
		fmt.Fprintf(t, "%d\tall %d\t\t%s\t\t%s\n", l.Level, l.Tables, figures(&l.FilterFigures, l.Probes), counts(l.Verdicts))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if err := printRanges(w, r); err != nil {
		return err
	}
	if err := printAdvice(w, r); err != nil || len(r.Tables) == 0 {
		return err
	}
	_, err := fmt.Fprint(w, "\npredicted, measured: false-positive rate of the table's filter; each false positive wastes a block read\n"+
		"from, to: interval of the true rate with 95 % confidence; ?: unknown, as with few keys\n"+
		"pays after: lookups of absent keys that save reading as many bytes as the filter has\n")
	return err
}

// printRanges prints the range filters, if there are any, and their results for iterators.
func printRanges(w io.Writer, r *db.FilterReport) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	head := "level\ttable\trange filter\tbytes\tbits a key\tverdict\n"
	for i := range r.Tables {
		for _, f := range r.Tables[i].Ranges {
			fmt.Fprintf(t, "%s%d\t%s\t%s\t%d\t%s\t%s\n", head, r.Tables[i].Level, r.Tables[i].Name, quoted(f.Policy), f.Bytes, number(f.BitsPerKey),
				withDetail(f.Verdict, f.Detail))
			head = ""
		}
	}
	for _, l := range r.Levels {
		if l.RangeBytes > 0 {
			fmt.Fprintf(t, "%d\tall %d\t\t%d\t%s\t\n", l.Level, l.Tables, l.RangeBytes, number(l.RangeBitsPerKey))
		}
	}
	return t.Flush()
}

// number is "?" for figures that are not known, which are 0.
func number(n float64) string {
	if n == 0 {
		return "?"
	}
	return fmt.Sprintf("%.1f", n)
}

func withDetail(v db.FilterVerdict, detail string) string {
	if detail == "" {
		return string(v)
	}
	return string(v) + ": " + detail
}

// policyName is quoted where a terminal could not show it: it stands in the file.
func policyName(f *db.TableFilterReport) string {
	if f.Policy == "" {
		return f.Layout
	}
	return quoted(f.Policy) + ", " + f.Layout
}

// quoted returns a name from a file as it is, if a terminal can show it.
func quoted(name string) string {
	if q := strconv.Quote(name); q[1:len(q)-1] != name {
		return q
	}
	return name
}

// figures are the columns from the bytes to the measured rate's bounds.
func figures(f *db.FilterFigures, p db.FilterProbes) string {
	rate, low, high := p.Rate()
	if p.Absent == 0 {
		return fmt.Sprintf("%d\t%.1f\t%s\t?\t?\t?", f.FilterBytes, f.BitsPerKey, percent(f.Predicted))
	}
	return fmt.Sprintf("%d\t%.1f\t%s\t%s\t%s\t%s", f.FilterBytes, f.BitsPerKey, percent(f.Predicted), percent(rate), percent(low), percent(high))
}

// percent is "?" for rates that are not known, which are negative.
func percent(rate float64) string {
	if rate < 0 {
		return "?"
	}
	return fmt.Sprintf("%.3f %%", 100*rate)
}

// repayment says after how many lookups the filter has saved what it takes.
func repayment(f *db.TableFilterReport) string {
	n := f.LookupsToRepay()
	if f.FilterBytes == 0 || math.IsInf(n, 1) {
		return "-"
	}
	return fmt.Sprintf("%.1f lookups", n)
}

func counts(verdicts map[db.FilterVerdict]int) (s string) {
	for _, v := range slices.Sorted(maps.Keys(verdicts)) {
		if s != "" {
			s += ", "
		}
		s += fmt.Sprintf("%d %s", verdicts[v], v)
	}
	return s
}

// printAdvice says what to do about each verdict in the report.
func printAdvice(w io.Writer, r *db.FilterReport) error {
	all := map[db.FilterVerdict]int{}
	for _, f := range r.Tables {
		all[f.Verdict]++
		for _, ranges := range f.Ranges {
			if ranges.Verdict != db.VerdictGood {
				all[ranges.Verdict]++
			}
		}
	}
	for _, v := range slices.Sorted(maps.Keys(all)) {
		if _, err := fmt.Fprintf(w, "%s (%d): %s\n", v, all[v], v.Advice()); err != nil {
			return err
		}
	}
	return nil
}
