package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/sievedb/sievedb/cmd/peerbench/engine"
)

// report has the results of a run, for all outputs.
type report struct {
	cfg        *config
	conditions conditions
	results    []*result
	rows       []*row
}

// A row has all rounds of a measurement, for every engine.
type row struct {
	workload string
	threads  int
	keys     int                  // with --scale
	cells    map[string][]*result // by engine
}

func (r *row) title() string {
	who := "readers"
	if r.about().writers {
		who = "writers"
	}
	if r.threads > 1 {
		return fmt.Sprintf("%s, %d %s", r.workload, r.threads, who)
	}
	return r.workload
}

func (r *row) about() *workload {
	if w, ok := findWorkload(r.workload); ok {
		return w
	}
	return &workload{name: r.workload, base: loaded}
}

func newReport(cfg *config, began time.Time, drivers []engine.Driver, results []*result) *report {
	return assemble(cfg, newConditions(cfg, began, drivers), results)
}

// assemble collects the results of each measurement in a row.
func assemble(cfg *config, c conditions, results []*result) *report {
	rep := &report{cfg: cfg, conditions: c, results: results}
	for _, res := range results {
		if res.Error != "" {
			continue // it has no figures
		}
		i := slices.IndexFunc(rep.rows, func(r *row) bool {
			return r.workload == res.Workload && r.threads == res.Threads && r.keys == res.Keys
		})
		if i < 0 {
			i = len(rep.rows)
			rep.rows = append(rep.rows, &row{workload: res.Workload, threads: res.Threads, keys: res.Keys, cells: map[string][]*result{}})
		}
		rep.rows[i].cells[res.Engine] = append(rep.rows[i].cells[res.Engine], res)
	}
	return rep
}

// spread is the median, minimum and maximum of the rounds.
type spread struct{ median, min, max float64 }

// spreadOf returns the spread of a figure, and false if the engine has none.
func (r *row) spreadOf(engine string, figure func(*result) *float64) (spread, bool) {
	var values []float64
	for _, res := range r.cells[engine] {
		if v := figure(res); v != nil {
			values = append(values, *v)
		}
	}
	if len(values) == 0 {
		return spread{}, false
	}
	slices.Sort(values)
	middle := len(values) / 2
	median := values[middle]
	if len(values)%2 == 0 {
		median = (values[middle-1] + values[middle]) / 2
	}
	return spread{median: median, min: values[0], max: values[len(values)-1]}, true
}

func opsPerSec(r *result) *float64 { return &r.OpsPerSec }

// best returns the greatest median rate of the engines.
func (r *row) best() float64 {
	best := 0.0
	for engine := range r.cells {
		if s, ok := r.spreadOf(engine, opsPerSec); ok {
			best = max(best, s.median)
		}
	}
	return best
}

// ourTitle is SieveDB's title in tables. Titles of its variants start with it; all other engines are peers.
const ourTitle = "SieveDB"

// A table has a title, column headings and rows of cells.
type table struct {
	title string
	head  []string
	rows  [][]string
	note  string // below the rows
}

// tables returns the overviews and a table for each workload, or the tables of --scale.
func (rep *report) tables() []table {
	if rep.cfg.scaled() {
		return rep.scaleTables()
	}
	var details []table
	for _, r := range rep.rows {
		details = append(details, rep.details(r))
	}
	return append(overviews(details), details...)
}

// overviews returns the tables that have a row for each workload and a column for each engine, made from the tables
// of the workloads.
func overviews(details []table) []table {
	titles, engines := (&page{tables: details}).engines()
	tables := []table{{title: "ops/s, medians"}, {title: "CPU µs/op, medians"}, {title: "peak MB, medians"}}
	for i, columns := range [][]string{{opsColumn}, {cpuColumn, settledCPUColumn}, {peakColumn}} {
		t := &tables[i]
		t.head = append([]string{"workload"}, titles...)
		for _, w := range details {
			cells := []string{w.title}
			for _, e := range engines {
				cells = append(cells, w.cellOf(e, columns))
			}
			t.rows = append(t.rows, cells)
		}
		if slices.ContainsFunc(titles, func(e string) bool { return strings.HasSuffix(e, lossMark) }) {
			t.note = lossNote
		}
	}
	rates := &tables[0]
	rates.head = append(rates.head, "SieveDB / best peer", "SieveDB / Pebble")
	for i, w := range details {
		best := 0.0
		for _, e := range engines {
			if v := parsedCell(w.cellOf(e, []string{opsColumn})); !strings.HasPrefix(e, ourTitle) && v > best {
				best = v
			}
		}
		ours, pebble := parsedCell(w.cellOf(ourTitle, []string{opsColumn})), parsedCell(w.cellOf("Pebble", []string{opsColumn}))
		rates.rows[i] = append(rates.rows[i], known(!math.IsNaN(ours) && best > 0, ratio(ours, best)),
			known(!math.IsNaN(ours+pebble), ratio(ours, pebble)))
	}
	return tables
}

// cellOf returns an engine's cell in the first of the columns that the table has, "n/a" if there is none.
func (t *table) cellOf(engine string, columns []string) string {
	row := t.rowOf(engine)
	if row < 0 {
		return "n/a"
	}
	return t.cell(row, columns)
}

// rowOf returns the index of the row that begins with an engine, whose title has no mark, or -1.
func (t *table) rowOf(engine string) int {
	return slices.IndexFunc(t.rows, func(cells []string) bool { return strings.TrimSuffix(cells[0], lossMark) == engine })
}

// Names of columns, which charts look up.
const (
	engineColumn     = "engine"
	opsColumn        = "ops/s"
	roundsColumn     = "min–max" // the least and the greatest rate of the rounds
	cpuColumn        = "CPU µs/op"
	diskColumn       = "disk B/op"
	settledOpsColumn = "ops/s, settled"
	settledCPUColumn = "CPU s/M ops, settled"
	peakColumn       = "peak MB"
)

// A figure is a column of a workload's table. Columns without figures are omitted.
type figure struct {
	name string
	get  func(*result) *float64
	text func(float64) string
}

func scaled(get func(*result) float64) func(*result) *float64 {
	return func(r *result) *float64 { v := get(r); return &v }
}

func latencyOf(get func(*latency) float64) func(*result) *float64 {
	return within(func(r *result) *latency { return r.Latency }, get)
}

func backgroundWait(get func(*latency) float64) func(*result) *float64 {
	return within(func(r *result) *latency { return r.BackgroundWaits }, get)
}

func within(which func(*result) *latency, get func(*latency) float64) func(*result) *float64 {
	return func(r *result) *float64 {
		l := which(r)
		if l == nil {
			return nil
		}
		if v := get(l); v > 0 {
			return &v
		}
		return nil // a file of --medians does not have it
	}
}

// cpuPerOp is the CPU time in microseconds per operation, which is seconds per million. It is nil
// unless settled says whether the time includes settling.
func cpuPerOp(settled bool) func(*result) *float64 {
	return func(r *result) *float64 {
		if r.CPUSeconds == 0 || r.Ops == 0 || settled != (r.SettleSeconds != nil) {
			return nil
		}
		v := r.CPUSeconds * 1e6 / float64(r.Ops)
		return &v
	}
}

// ofWrites omits a figure of workloads that do not write.
func ofWrites(get func(*result) *float64) func(*result) *float64 {
	return func(r *result) *float64 {
		if w, ok := findWorkload(r.Workload); !ok || !w.writes() {
			return nil
		}
		return get(r)
	}
}

const mb = 1e6

func megabytes(get func(*result) *uint64) func(*result) *float64 {
	return func(r *result) *float64 {
		n := get(r)
		if n == nil {
			return nil
		}
		v := float64(*n) / mb
		return &v
	}
}

var figures = []figure{
	{cpuColumn, cpuPerOp(false), short},
	{settledCPUColumn, cpuPerOp(true), short},
	{peakColumn, peakMB, count},
	{"end MB", scaled(func(r *result) float64 { return float64(r.EndBytes) / mb }), count},
	{"anon MB", megabytes(func(r *result) *uint64 { return r.EndAnonymous }), count},
	{"file MB", megabytes(func(r *result) *uint64 { return r.EndFile }), count},
	{"p50 µs", latencyOf(func(l *latency) float64 { return l.P50 }), short},
	{"p99", latencyOf(func(l *latency) float64 { return l.P99 }), short},
	{"p99.9", latencyOf(func(l *latency) float64 { return l.P999 }), short},
	{"p99.99", ofWrites(latencyOf(func(l *latency) float64 { return l.P9999 })), short},
	{"max", latencyOf(func(l *latency) float64 { return l.Max }), short},
	{"background writes/s", func(r *result) *float64 { return r.BackgroundWrites }, count},
	{"write wait p99.9 µs", backgroundWait(func(l *latency) float64 { return l.P999 }), short},
	{"write wait max", backgroundWait(func(l *latency) float64 { return l.Max }), short},
	{"allocs/op", func(r *result) *float64 { return r.AllocsPerOp }, short},
	{"read calls/op", func(r *result) *float64 { return r.ReadCallsPerOp }, short},
	{diskColumn, func(r *result) *float64 { return r.DiskReadPerOp }, short},
	{"major faults/op", func(r *result) *float64 { return r.MajorFaultsPerOp }, short},
	{"disk MB", scaled(func(r *result) float64 { return float64(r.DiskBytes) / mb }), count},
	{"write amp.", func(r *result) *float64 { return r.WriteAmp }, short},
	{settledOpsColumn, func(r *result) *float64 { return r.SettledOpsPerSec }, count},
}

// details returns the table with all figures of a workload.
func (rep *report) details(r *row) table {
	t := table{title: r.title(), head: []string{engineColumn, opsColumn, roundsColumn, "of best", "of Pebble"}}
	var columns []figure
	for _, f := range figures {
		if slices.ContainsFunc(rep.cfg.Engines, func(e string) bool { _, ok := r.spreadOf(e, f.get); return ok }) {
			columns = append(columns, f)
			t.head = append(t.head, f.name)
		}
	}
	pebble, both := r.spreadOf("pebble", opsPerSec)
	titles := rep.titles(r.about().unsynced())
	t.note = titles.note
	for i, name := range rep.cfg.Engines {
		s, ok := r.spreadOf(name, opsPerSec)
		if !ok {
			continue
		}
		rounds := known(len(r.cells[name]) > 1 || rep.cfg.Rounds == 1, count(s.min)+"–"+count(s.max))
		cells := []string{titles.list[i], count(s.median), rounds,
			ratio(s.median, r.best()), known(both, ratio(s.median, pebble.median))}
		for _, f := range columns {
			s, ok := r.spreadOf(name, f.get)
			cells = append(cells, known(ok, f.text(s.median)))
		}
		t.rows = append(t.rows, cells)
	}
	return t
}
