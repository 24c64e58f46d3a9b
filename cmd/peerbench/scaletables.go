package main

import (
	"slices"
	"strings"

	"github.com/sievedb/sievedb/cmd/internal/bench"
)

// A measure is a column of a table of --scale: a figure of one workload.
type measure struct {
	name     string
	workload string
	figure
}

func newMeasure(name, workload string, get func(*result) *float64, text func(float64) string) measure {
	return measure{name: name, workload: workload, figure: figure{get: get, text: text}}
}

// microsPerOp returns the elapsed time per operation in microseconds.
func microsPerOp(r *result) *float64 {
	if r.OpsPerSec == 0 {
		return nil
	}
	v := 1e6 / r.OpsPerSec
	return &v
}

func openMillis(r *result) *float64 {
	if r.OpenSeconds == nil {
		return nil
	}
	v := *r.OpenSeconds * 1e3
	return &v
}

func millis(v float64) *float64 { v /= 1e3; return &v }

func peakMB(r *result) *float64 { v := float64(r.PeakBytes) / mb; return &v }

// fillMeasures returns the measures of the fill, which is settled.
func fillMeasures(cfg *config) []measure {
	const fill = "fillrandom"
	return []measure{
		newMeasure(opsColumn, fill, opsPerSec, count),
		newMeasure(settledOpsColumn, fill, func(r *result) *float64 { return r.SettledOpsPerSec }, count),
		newMeasure(settledCPUColumn, fill, cpuPerOp(true), short),
		newMeasure("settling s", fill, func(r *result) *float64 { return r.SettleSeconds }, short),
		newMeasure("p99.99 ms", fill, func(r *result) *float64 { return millis(r.Latency.P9999) }, short),
		newMeasure("max ms", fill, func(r *result) *float64 { return millis(r.Latency.Max) }, short),
		newMeasure("write amp.", fill, func(r *result) *float64 { return r.WriteAmp }, short),
		newMeasure("disk MB", fill, func(r *result) *float64 { v := float64(r.DiskBytes) / mb; return &v }, count),
		newMeasure("disk / data", fill, func(r *result) *float64 {
			v := float64(r.DiskBytes) / float64(r.Keys*(keySize+cfg.ValueSize))
			return &v
		}, short),
		newMeasure(peakColumn, fill, peakMB, count),
	}
}

// openMeasures returns the measures of opening and recovery.
func openMeasures() []measure {
	return []measure{
		newMeasure("open ms", opening, openMillis, short),
		newMeasure("open ms, lazy tables", openLazily, openMillis, short),
		newMeasure("recovery ms", recovering, openMillis, short),
		newMeasure("writes in log", recovering, func(r *result) *float64 { v := float64(r.Ops); return &v }, count),
		newMeasure("recovered", recovering, func(r *result) *float64 { v := float64(r.Found); return &v }, count),
	}
}

// readMeasures returns one figure of each reading workload.
func readMeasures(get func(*result) *float64, text func(float64) string) (all []measure) {
	for _, name := range scaledReads {
		all = append(all, newMeasure(name, name, get, text))
	}
	return all
}

// Titles of tables, which charts look up.
const (
	fillsTitle  = "Fills in random order, settled"
	microsTitle = "µs per operation"
)

// scaleTables returns the tables of --scale.
func (rep *report) scaleTables() (all []table) {
	if rep.cfg.large() {
		return rep.largeTables()
	}
	for _, t := range []struct {
		title    string
		unsynced bool
		measures []measure
	}{
		{fillsTitle, true, fillMeasures(rep.cfg)},
		{"Opening, and recovery of a full log", true, openMeasures()},
		{microsTitle, false, readMeasures(microsPerOp, short)},
		{"CPU µs per operation", false, readMeasures(cpuPerOp(false), short)},
		{"Peak MB while reading", false, readMeasures(peakMB, count)},
	} {
		if built, ok := rep.sizes(t.title, t.unsynced, t.measures); ok {
			all = append(all, built)
		}
	}
	return all
}

// sizes returns a table with a row for each size and engine. Columns without figures are omitted. It
// returns false if no column remains.
func (rep *report) sizes(title string, unsynced bool, measures []measure) (table, bool) {
	titles := rep.titles(unsynced)
	t := table{title: title, head: []string{"keys", engineColumn}, note: titles.note}
	measures = slices.DeleteFunc(measures, func(m measure) bool {
		return !slices.ContainsFunc(rep.cfg.Scale, func(keys int) bool {
			return slices.ContainsFunc(rep.cfg.Engines, func(e string) bool {
				_, ok := rep.atSize(keys, e, m)
				return ok
			})
		})
	})
	for _, m := range measures {
		t.head = append(t.head, m.name)
	}
	for _, keys := range rep.cfg.Scale {
		for i, engine := range rep.cfg.Engines {
			cells := []string{bench.Grouped(uint64(keys)), titles.list[i]}
			for _, m := range measures {
				v, ok := rep.atSize(keys, engine, m)
				cells = append(cells, known(ok, m.text(v)))
			}
			t.rows = append(t.rows, cells)
		}
	}
	return t, len(measures) > 0
}

// atSize returns the median of a measure, and false if there is none.
func (rep *report) atSize(keys int, engine string, m measure) (float64, bool) {
	for _, r := range rep.rows {
		if r.keys == keys && r.workload == m.workload {
			s, ok := r.spreadOf(engine, m.get)
			return s.median, ok
		}
	}
	return 0, false
}

func sizesText(sizes []int) string {
	var all []string
	for _, n := range sizes {
		all = append(all, bench.Grouped(uint64(n)))
	}
	return strings.Join(all, ", ")
}
