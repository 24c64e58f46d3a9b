package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// The marks between which README has its table.
const (
	readmeBegin = "<!-- figures: begin -->\n"
	readmeEnd   = "<!-- figures: end -->"
)

// readmeEngines are the columns of README's tables, all in Go.
var readmeEngines = [...]string{ourTitle, "goleveldb", "Pebble", "Badger", "bbolt"}

// A readmeRow is a row of README's table: a column of a workload's table, in words.
type readmeRow struct {
	words, workload, column string
	least                   bool // a smaller figure is better
	newer                   bool // results of older versions do not have the workload; then the row is omitted
}

// readmeRows has what a user chooses by, the rows in which another engine is ahead included.
var readmeRows = []readmeRow{
	{"absent keys", "readmissing", opsColumn, false, false},
	{"stored keys", "readrandom", opsColumn, false, false},
	{"stored keys, all cached", "readrandom-cacheall", opsColumn, false, false},
	{"stored keys, cache a tenth of the data", "readrandom-cachetenth", opsColumn, false, false},
	{"stored keys, page cache empty at first", "coldrandom", opsColumn, false, false},
	{"seeks", "seekrandom", opsColumn, false, false},
	{"seeks, all cached", "seekrandom-cacheall", opsColumn, false, true},
	{"scan forward", "readseq", opsColumn, false, false},
	{"scan forward, all cached", "readseq-cacheall", opsColumn, false, true},
	{"scan backward", "readreverse", opsColumn, false, false},
	{"scan backward, all cached", "readreverse-cacheall", opsColumn, false, true},
	{"unsynced writes in random order", "fillrandom", opsColumn, false, false},
	{"unsynced deletes", "deleterandom", opsColumn, false, false},
	{"synced writes, SieveDB's default", "fillsync", opsColumn, false, false},
	{"synced writes of 16 goroutines", "fillsync, 16 writers", opsColumn, false, false},
	{"99.99th percentile of overwrites, µs", "overwrite", "p99.99", true, false},
	{"bytes written to disk per byte deleted", "deleterandom", "write amp.", true, false},
	{"peak memory, MB", "readrandom", peakColumn, true, false},
	{"peak memory, all cached, MB", "readrandom-cacheall", peakColumn, true, false},
	{"disk space, MB", "readrandom", "disk MB", true, false},
}

// writeReadme writes README's tables, rates first.
func writeReadme(name string, pages []*page, kept keptRuns) error {
	rates := table{head: append(append([]string{"operations per second"}, readmeEngines[:]...), ourTitle+" / best other")}
	costs := table{head: append([]string{"less is better"}, readmeEngines[:]...)}
	all := allTables(pages)
	for _, r := range readmeRows {
		i := slices.IndexFunc(all, func(w table) bool { return w.title == r.workload && w.isDetails() })
		if i < 0 && r.newer {
			continue
		}
		if i < 0 {
			return fmt.Errorf("--readme: the run has no workload %q", r.workload)
		}
		cells, err := r.cells(&all[i], kept)
		if err != nil {
			return err
		}
		if r.least {
			costs.rows = append(costs.rows, cells)
		} else {
			rates.rows = append(rates.rows, cells)
		}
	}
	return writeBetween(name, readmeBegin, readmeEnd, rates.markdown()+"\n"+costs.markdown()+"\n")
}

// cells returns the cells of the row. A rate of unsynced writes keeps the dagger of its engine. A rate is bold if it is
// the best of all engines of the run, if its rounds were all better than all rounds of the others, and if its median is
// the best of the other runs too. The rounds of other figures are not in the tables, so none of these is bold.
func (r *readmeRow) cells(w *table, kept keptRuns) ([]string, error) {
	column := slices.Index(w.head, r.column)
	if column < 0 {
		return nil, fmt.Errorf("--readme: the table of %s has no column %q", r.workload, r.column)
	}
	cells, isRate := []string{fmt.Sprintf("%s (`%s`)", r.words, r.workload)}, r.column == opsColumn
	for _, engine := range readmeEngines {
		row := w.rowOf(engine)
		if row < 0 {
			return nil, fmt.Errorf("--readme: the table of %s has no row of %s", r.workload, engine)
		}
		cell := w.rows[row][column]
		slower := func(ratio float64) bool { return ratio <= 1 }
		if isRate && w.isBest(row) && !slices.ContainsFunc(kept.ratios(w, row), slower) {
			cell = "**" + cell + "**"
		}
		if isRate && strings.HasSuffix(w.rows[row][0], lossMark) {
			cell += lossMark
		}
		cells = append(cells, cell)
	}
	if isRate {
		cells = append(cells, kept.ratio(w, w.rowOf(ourTitle)))
	}
	return cells, nil
}

// isOther reports whether two rows are of different engines. SieveDB is measured with several settings, which differ in
// what they promise and not in how they read.
func (t *table) isOther(i, row int) bool {
	isOurs := func(i int) bool { return strings.HasPrefix(t.rows[i][0], ourTitle) }
	return i != row && !(isOurs(i) && isOurs(row))
}

// bestOther returns the row of the highest rate of the other engines, -1 if there is none.
func (t *table) bestOther(row int) int {
	best, most := -1, 0.0
	for i := range t.rows {
		if v := t.value(i, opsColumn); row >= 0 && t.isOther(i, row) && v > most {
			best, most = i, v
		}
	}
	return best
}

// plain returns the title of a row's engine.
func (t *table) plain(row int) string { return strings.TrimSuffix(t.rows[row][0], lossMark) }

// rounds returns the least and the greatest rate of an engine's rounds, NaN if it was not measured. Those of SieveDB
// are the rounds of all rows of it: the same code was measured as often.
func (t *table) rounds(row int) (least, most float64) {
	least, most = math.NaN(), math.NaN()
	for i, cells := range t.rows {
		if t.isOther(i, row) {
			continue
		}
		from, to, _ := strings.Cut(cells[max(slices.Index(t.head, roundsColumn), 0)], "–")
		if v := parsedCell(from); !(v >= least) {
			least = v
		}
		if v := parsedCell(to); !(v <= most) {
			most = v
		}
	}
	return least, most
}

// isBest reports whether the rounds of an engine are faster than those of all others.
func (t *table) isBest(row int) bool {
	least, _ := t.rounds(row)
	for i := range t.rows {
		if _, most := t.rounds(i); t.isOther(i, row) && least <= most {
			return false
		}
	}
	return !math.IsNaN(least)
}
