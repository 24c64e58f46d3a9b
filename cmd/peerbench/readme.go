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

// readmeEngines are the columns of README's table, all in Go. A dagger of the title is kept.
var readmeEngines = []string{ourTitle, "goleveldb", "Pebble", "Badger", "bbolt"}

// A readmeRow is a row of README's table: a column of a workload's table, in words.
type readmeRow struct {
	words, workload, column string
	least                   bool // the least figure is the best one
}

// readmeRows has what a user chooses by, the rows in which another engine is ahead included.
var readmeRows = []readmeRow{
	{"absent keys", "readmissing", opsColumn, false},
	{"stored keys", "readrandom", opsColumn, false},
	{"stored keys, cache a tenth of the data", "readrandom-cachetenth", opsColumn, false},
	{"stored keys, page cache empty at first", "coldrandom", opsColumn, false},
	{"seeks", "seekrandom", opsColumn, false},
	{"scan forward", "readseq", opsColumn, false},
	{"scan backward", "readreverse", opsColumn, false},
	{"unsynced writes in random order", "fillrandom", opsColumn, false},
	{"unsynced deletes", "deleterandom", opsColumn, false},
	{"synced writes, as by default", "fillsync", opsColumn, false},
	{"synced writes of 16 goroutines", "fillsync, 16 writers", opsColumn, false},
	{"slowest of 10,000 overwrites, µs", "overwrite", "p99.99", true},
	{"bytes written for each byte of a delete", "deleterandom", "write amp.", true},
	{"peak memory, MB", "readrandom", "peak MB", true},
	{"disk space, MB", "readrandom", "disk MB", true},
}

// writeReadme writes README's table, with the best figure of each row in bold.
func writeReadme(name string, pages []*page) error {
	t := table{head: append([]string{"operations per second"}, readmeEngines...)}
	all := allTables(pages)
	for _, r := range readmeRows {
		i := slices.IndexFunc(all, func(w table) bool { return w.title == r.workload && w.isDetails() })
		if i < 0 {
			return fmt.Errorf("--readme: the run has no workload %q", r.workload)
		}
		cells, err := r.cells(&all[i], t.head)
		if err != nil {
			return err
		}
		t.rows = append(t.rows, cells)
	}
	return writeBetween(name, readmeBegin, readmeEnd, t.markdown()+"\n")
}

// cells returns the cells of the row. It puts the dagger of an engine's title in w into head.
func (r *readmeRow) cells(w *table, head []string) ([]string, error) {
	column := slices.Index(w.head, r.column)
	if column < 0 {
		return nil, fmt.Errorf("--readme: the table of %s has no column %q", r.workload, r.column)
	}
	cells, best, bestAt := []string{fmt.Sprintf("%s (`%s`)", r.words, r.workload)}, math.NaN(), 1
	for i, engine := range readmeEngines {
		row := slices.IndexFunc(w.rows, func(cells []string) bool { return strings.TrimSuffix(cells[0], lossMark) == engine })
		if row < 0 {
			return nil, fmt.Errorf("--readme: the table of %s has no row of %s", r.workload, engine)
		}
		if strings.HasSuffix(w.rows[row][0], lossMark) {
			head[i+1] = w.rows[row][0]
		}
		cells = append(cells, w.rows[row][column])
		v := parsedCell(cells[i+1])
		better := v > best
		if r.least {
			better = v < best
		}
		if better || math.IsNaN(best) {
			best, bestAt = v, i+1
		}
	}
	cells[bestAt] = "**" + cells[bestAt] + "**"
	return cells, nil
}
