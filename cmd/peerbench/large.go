package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sievedb/sievedb/cmd/internal/bench"
)

// largeMeasures returns the rows of the table of one size.
func largeMeasures(cfg *config) []measure {
	all := slices.Concat(writeMeasures(cfg, filling, "fillrandom"), writeMeasures(cfg, overwriting, overwriting))
	all = append(all, writeMeasures(cfg, deleting, deleting)...)
	for _, name := range scaledReads {
		all = append(all, newMeasure(name+": "+opsColumn, name, opsPerSec, count))
	}
	for _, name := range scaledReads {
		all = append(all, newMeasure(name+": "+peakColumn, name, peakMB, count),
			newMeasure(name+": heap MB", name, megabytes(func(r *result) *uint64 { return r.Further.HeapBytes }), count))
	}
	return append(all, openMeasures()...)
}

// writeMeasures returns the rows of a workload that writes. Its results have the name workload.
func writeMeasures(cfg *config, name, workload string) (all []measure) {
	all = append(all, newMeasure("last tenth, ops/s", workload, func(r *result) *float64 { return r.Further.LastTenthPerSec }, count))
	for _, m := range fillMeasures(cfg) {
		m.workload = workload
		all = append(all, m)
	}
	for i := range all {
		all[i].name = name + ": " + all[i].name
	}
	return all
}

// largeTables returns, for each size, a table with a column for each engine, and one for each number of writers at
// fixed rates.
func (rep *report) largeTables() (all []table) {
	for _, keys := range rep.cfg.Scale {
		if t, ok := rep.large(keys); ok {
			all = append(all, t)
		}
		for _, writers := range rep.cfg.Writers {
			if t, ok := rep.rates(keys, writers); ok {
				all = append(all, t)
			}
		}
	}
	return all
}

// large returns the table of a size, and false if it has no figures.
func (rep *report) large(keys int) (table, bool) {
	titles := rep.titles(true)
	t := table{title: bench.Grouped(uint64(keys)) + " keys", head: append([]string{"figure"}, titles.list...)}
	t.note = strings.TrimSpace(titles.note + " " + rep.unfinished(keys))
	for _, m := range largeMeasures(rep.cfg) {
		cells, measured := []string{m.name}, false
		for _, engine := range rep.cfg.Engines {
			v, ok := rep.atSize(keys, engine, m)
			cells, measured = append(cells, known(ok, m.text(v))), measured || ok
		}
		if measured {
			t.rows = append(t.rows, cells)
		}
	}
	return t, len(t.rows) > 0
}

// unfinished says which engines exceeded --limit.
func (rep *report) unfinished(keys int) string {
	var all []string
	for _, r := range rep.results {
		if r.Error != "" && r.Keys == keys {
			all = append(all, fmt.Sprintf("%s: %s was %s.", rep.conditions.about(r.Engine).Title, r.Workload, r.Error))
		}
	}
	return strings.Join(all, " ")
}

// rateNote explains the columns of the tables of rates.
const rateNote = "Times count from when a write was due; those of calls count from their beginning. " +
	"Shares are of the highest rate, settling included."

// rates returns the table of writes at fixed rates, and false if there were none.
func (rep *report) rates(keys, writers int) (table, bool) {
	titles := rep.titles(true)
	t := table{
		title: fmt.Sprintf("Writes at fixed rates, %s keys, %s", bench.Grouped(uint64(keys)), bench.Counted(uint64(writers), "writer")),
		note:  strings.TrimSpace(rateNote + " " + titles.note),
		head: []string{engineColumn, "rate", "due/s", "done/s", "p50 ms", "p99 ms", "p99.9 ms", "p99.99 ms", "max ms",
			"calls: p50 µs", "calls: p99.99 ms", "calls: max ms", "settling s", settledOpsColumn},
	}
	for i, engine := range rep.cfg.Engines {
		for _, r := range rep.rows {
			if workload, ok := strings.CutPrefix(r.workload, ratePrefix); ok && r.keys == keys && r.threads == writers {
				for _, res := range r.cells[engine] {
					t.rows = append(t.rows, append([]string{titles.list[i], workload}, res.rateCells()...))
				}
			}
		}
	}
	return t, len(t.rows) > 0
}

// rateCells returns the cells after engine and rate.
func (r *result) rateCells() []string {
	millis := func(l *latency, of ...func(*latency) float64) (cells []string) {
		for _, get := range of {
			if l == nil {
				cells = append(cells, known(false, ""))
			} else {
				cells = append(cells, short(get(l)/1e3))
			}
		}
		return cells
	}
	p9999, longest := func(l *latency) float64 { return l.P9999 }, func(l *latency) float64 { return l.Max }
	due := known(false, "")
	if r.Further.OfferedPerSec != nil {
		due = count(*r.Further.OfferedPerSec)
	}
	return slices.Concat([]string{due, count(r.OpsPerSec)},
		millis(r.Further.Waits, func(l *latency) float64 { return l.P50 }, func(l *latency) float64 { return l.P99 },
			func(l *latency) float64 { return l.P999 }, p9999, longest),
		[]string{short(r.Latency.P50)}, millis(r.Latency, p9999, longest),
		[]string{short(*r.SettleSeconds), count(*r.SettledOpsPerSec)})
}
