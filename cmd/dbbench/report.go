package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/sievedb/sievedb/cmd/internal/bench"
	"github.com/sievedb/sievedb/db"
)

// The promises of the default run on the shipped words.
const (
	maxReadsPerAbsentKey = 0.02
	minReadsFactor       = 50
)

// report is the report of disk reads saved. README.md documents its JSON form.
type report struct {
	FilterKind string       `json:"-"`
	Bits       int          `json:"bloom_bits"`
	Words      bool         `json:"shipped_words"`
	CacheBytes int64        `json:"cache_bytes"`
	Shape      string       `json:"-"`
	Levels     []levelShape `json:"levels"`

	Stored comparison `json:"stored_keys"`
	Absent comparison `json:"absent_keys"`

	Checks []check `json:"checks"`
}

// levelShape has the size of a level when it was measured.
type levelShape struct {
	Level  int    `json:"level"`
	Tables int    `json:"tables"`
	Bytes  uint64 `json:"bytes"`
}

// check is a condition of the report with its result.
type check struct {
	Name   string `json:"name"`
	Detail string `json:"detail"`
	Passed bool   `json:"passed"`
}

func (r *report) setShape(m *db.Metrics) {
	r.Levels = levelShapes(m)
	r.Shape = levelsText(r.Levels)
}

func levelShapes(m *db.Metrics) (shapes []levelShape) {
	for i, l := range m.Levels {
		if l.Tables > 0 {
			shapes = append(shapes, levelShape{Level: i, Tables: l.Tables, Bytes: l.Bytes})
		}
	}
	return shapes
}

// finish computes the derived figures and runs the checks. The promises are made for the default run only.
func (r *report) finish(promises bool) {
	r.Stored.summarize()
	r.Absent.summarize()
	r.checkAnswers()
	r.checkCounts()
	if promises {
		r.checkPromises()
	}
}

func (r *report) check(passed bool, name, detail string, args ...any) {
	r.Checks = append(r.Checks, check{Name: name, Detail: fmt.Sprintf(detail, args...), Passed: passed})
}

func (r *report) checkAnswers() {
	off, on := r.Stored.Off, r.Stored.On
	r.check(off.Found == off.Gets && on.Found == on.Gets, "every stored key is found",
		"missed: %s without filters, %s with them", bench.Grouped(off.Gets-off.Found), bench.Grouped(on.Gets-on.Found))
	r.check(r.Absent.Off.Found == 0 && r.Absent.On.Found == 0, "no absent key is found",
		"found: %s without filters, %s with them", bench.Grouped(r.Absent.Off.Found), bench.Grouped(r.Absent.On.Found))
}

// checkCounts compares the counts at the file system with the store's own, which are independent.
func (r *report) checkCounts() {
	var counted, reported readCounts
	agree := true
	for _, l := range []lookups{r.Stored.Off, r.Stored.On, r.Absent.Off, r.Absent.On} {
		agree = agree && l.IndexReads == l.StoreIndexReads && l.DataReads == l.StoreDataReads
		counted.Index += l.IndexReads
		counted.Data += l.DataReads
		reported.Index += l.StoreIndexReads
		reported.Data += l.StoreDataReads
	}
	r.check(agree, "file system and store count the same reads", "index blocks %s and %s, data blocks %s and %s",
		bench.Grouped(counted.Index), bench.Grouped(reported.Index), bench.Grouped(counted.Data), bench.Grouped(reported.Data))
}

func (r *report) checkPromises() {
	a := r.Absent
	r.check(a.On.ReadsPerGet <= maxReadsPerAbsentKey, fmt.Sprintf("an absent key costs at most %.2f disk reads",
		maxReadsPerAbsentKey),
		"%.4f", a.On.ReadsPerGet)
	r.check(a.Off.DiskReads >= minReadsFactor*a.On.DiskReads, fmt.Sprintf("at least %d times fewer than without filters",
		minReadsFactor),
		"%s", factorText(a.Factor))
}

func (r *report) failed() (n int) {
	for _, c := range r.Checks {
		if !c.Passed {
			n++
		}
	}
	return n
}

// reportRow is one line of the table. text formats its cells; onlyOn leaves the filter-off columns empty.
type reportRow struct {
	name   string
	text   func(l *lookups) string
	onlyOn bool
}

func countRow(name string, count func(*lookups) uint64) reportRow {
	return reportRow{name: name, text: func(l *lookups) string { return bench.Grouped(count(l)) }}
}

func (r reportRow) withFiltersOnly() reportRow {
	r.onlyOn = true
	return r
}

var reportRows = []reportRow{
	countRow("Gets", func(l *lookups) uint64 { return l.Gets }),
	countRow("keys found", func(l *lookups) uint64 { return l.Found }),
	countRow("tables consulted", func(l *lookups) uint64 { return l.TablesConsulted }),
	countRow("filter checks", func(l *lookups) uint64 { return l.FilterChecks }),
	countRow("filter negatives", func(l *lookups) uint64 { return l.FilterNegatives }),
	countRow("false positives", func(l *lookups) uint64 { return l.FilterFalsePositives }),
	reportRow{name: "  rate", text: func(l *lookups) string { return percent(l.FalsePositiveRate) }}.withFiltersOnly(),
	reportRow{name: "  rate that theory predicts", text: func(l *lookups) string { return percent(l.PredictedRate) }}.withFiltersOnly(),
	countRow("index blocks read from disk", func(l *lookups) uint64 { return l.IndexReads }),
	countRow("data blocks read from disk", func(l *lookups) uint64 { return l.DataReads }),
	countRow("reads to open tables", func(l *lookups) uint64 { return l.OpeningReads }),
	countRow("disk reads in all", func(l *lookups) uint64 { return l.DiskReads }),
	{name: "disk reads per Get", text: func(l *lookups) string { return fmt.Sprintf("%.4f", l.ReadsPerGet) }},
	{name: "bytes read", text: func(l *lookups) string { return bench.SizeText(l.BytesRead) }},
	{name: "µs per Get", text: func(l *lookups) string { return fmt.Sprintf("%.2f", l.MicrosPerOp) }},
}

func percent(share float64) string { return fmt.Sprintf("%.2f %%", 100*share) }

func factorText(f *float64) string {
	if f == nil {
		return "none left"
	}
	if *f < 10 {
		return fmt.Sprintf("%.2f times", *f)
	}
	return fmt.Sprintf("%.0f times", *f)
}

// write prints the report.
func (r *report) write(w io.Writer) error {
	cache := bench.SizeText(uint64(r.CacheBytes)) + " of block cache"
	if r.CacheBytes == 0 {
		cache = "no block cache"
	}
	fmt.Fprintf(w, "\nDISK READS SAVED by %s\n\n", r.filters())
	fmt.Fprintf(w, "The data: %s.\n", r.Shape)
	fmt.Fprintf(w, "For each column the store is reopened with %s, and every key is looked up once,\n", cache)
	fmt.Fprint(w, "in the same random order. Disk reads are reads of table files, counted at the file system.\n\n")
	if err := r.writeTable(w); err != nil {
		return err
	}
	fmt.Fprintln(w)
	for _, c := range r.Checks {
		verdict := "PASS"
		if !c.Passed {
			verdict = "FAIL"
		}
		fmt.Fprintf(w, "%s  %s: %s\n", verdict, c.Name, c.Detail)
	}
	_, err := fmt.Fprintf(w, "\n%s\n", r.inWords())
	return err
}

// filters describes the store's filters.
func (r *report) filters() string {
	filters := fmt.Sprintf("filters of %d bits per key", r.Bits)
	switch {
	case r.FilterKind == "fuse":
		return fmt.Sprintf("binary fuse filters with slots of %s", bench.Counted(uint64(r.Bits), "bit"))
	case r.FilterKind == "both" && r.Bits == 10: // the store's default
		filters += ", 15 above the last level"
	}
	return filters
}

func (r *report) writeTable(w io.Writer) error {
	const nameWidth, cellWidth, gap = 29, 12, "   "
	const pair = 2*cellWidth + len("  ")
	var b strings.Builder
	line := func(name, storedOff, storedOn, absentOff, absentOn string) {
		fmt.Fprintf(&b, "%-*s%*s  %*s%s%*s  %*s\n", nameWidth, name,
			cellWidth, storedOff, cellWidth, storedOn, gap, cellWidth, absentOff, cellWidth, absentOn)
	}
	fmt.Fprintf(&b, "%-*s%*s%s%*s\n", nameWidth, "", pair, ruled("stored keys", pair-2), gap, pair, ruled("absent keys", pair-2))
	line("", "filter off", "filter on", "filter off", "filter on")
	for _, row := range reportRows {
		storedOff, absentOff := row.text(&r.Stored.Off), row.text(&r.Absent.Off)
		if row.onlyOn {
			storedOff, absentOff = "", ""
		}
		line(row.name, storedOff, row.text(&r.Stored.On), absentOff, row.text(&r.Absent.On))
	}
	line("disk reads saved", "", groupedSigned(r.Stored.ReadsSaved), "", groupedSigned(r.Absent.ReadsSaved))
	line("  fewer by a factor of", "", factorCell(r.Stored.Factor), "", factorCell(r.Absent.Factor))
	_, err := io.WriteString(w, b.String())
	return err
}

// ruled returns a heading in the middle of a rule of this width.
func ruled(heading string, width int) string {
	rule := width - len(heading) - len("  ")
	left := rule / 2
	return strings.Repeat("-", left) + " " + heading + " " + strings.Repeat("-", rule-left)
}

func factorCell(f *float64) string {
	if f == nil {
		return "-"
	}
	return fmt.Sprintf("%.1f", *f)
}

func groupedSigned(n int64) string {
	if n < 0 {
		return "-" + bench.Grouped(uint64(-n))
	}
	return bench.Grouped(uint64(n))
}

// inWords explains the table to first-time readers.
func (r *report) inWords() string {
	noun := "key"
	if r.Words {
		noun = "word"
	}
	a := r.Absent
	fewer := "none left."
	if a.Off.DiskReads == 0 {
		fewer = "since no table's key range covers such a key."
	} else if a.Factor != nil {
		fewer = factorText(a.Factor) + " fewer."
	}
	return fmt.Sprintf("In words: learning that a %s is not stored took %.2f disk reads without filters and %.4f with them,\n"+
		"%s A filter is a small summary of a table's keys (here %s of memory for all tables).\n"+
		"It rules out nearly every table that does not contain the %s, and never one that does.",
		noun, a.Off.ReadsPerGet, a.On.ReadsPerGet, fewer, bench.SizeText(a.On.FilterBytes), noun)
}
