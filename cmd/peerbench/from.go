package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/sievedb/sievedb/cmd/internal/bench"
)

// files returns the names of the files that a run writes. Empty names mean no file.
func (c *config) files() []string {
	o := &c.out
	files := []string{o.json, o.medians, o.markdown, o.summary, o.readme}
	switch {
	case o.svg == "":
	case c.scaled():
		files = append(files, o.svg+scaleSVG)
	default:
		files = append(files, o.svg+throughputSVG, o.svg+costSVG)
	}
	return files
}

// redraw reads the files of --from and writes what the other flags ask for.
func redraw(cfg *config) error {
	if strings.Join(cfg.files(), "") == "" {
		return errors.New("--from needs --json, --medians, --markdown, --summary, --readme or --svg: it only rewrites files")
	}
	var tables []*page
	var runs []*jsonFile
	for i, name := range cfg.from {
		text, err := os.ReadFile(name)
		if err != nil {
			return fmt.Errorf("--from: %w", err)
		}
		if i == 0 && !strings.HasPrefix(string(text), "{") {
			if tables = readTables(string(text)); len(tables) == 0 {
				return fmt.Errorf("--from: %s is not a file of --json, and has no tables between peerbench's marks", name)
			}
			continue
		}
		run, err := readRun(name, text)
		if err != nil {
			return fmt.Errorf("--from: %w", err)
		}
		runs = append(runs, run)
	}
	if tables != nil {
		return redrawTables(cfg, tables, runs)
	}
	merged := runs[0]
	for i, run := range runs[1:] {
		if err := merged.merge(run); err != nil {
			return fmt.Errorf("--from: %s does not go with %s: %w", cfg.from[i+1], cfg.from[0], err)
		}
	}
	settings := merged.Settings
	settings.out = cfg.out
	if err := bench.Writable(settings.files()...); err != nil {
		return err
	}
	return assemble(settings, merged.Conditions, merged.Results).writeFiles(merged.Complete)
}

// redrawTables writes what can be written without the results from which the tables were made. Those of the last run
// are first merged with later runs.
func redrawTables(cfg *config, pages []*page, later []*jsonFile) error {
	switch {
	case cfg.out.json != "":
		return errors.New("--from: --json needs files of --json, not one of tables")
	case cfg.out.markdown != "" && len(later) == 0:
		return errors.New("--from: --markdown needs a file of --json, after that of tables if they are to be kept")
	}
	for i, run := range later {
		if err := pages[0].merge(run); err != nil {
			return fmt.Errorf("--from: %s does not go with %s: %w", cfg.from[i+1], cfg.from[0], err)
		}
	}
	if err := bench.Writable(cfg.files()...); err != nil {
		return err
	}
	if cfg.out.markdown != "" {
		if err := writeBetween(cfg.out.markdown, markBegin, markEnd, pages[0].markdown()); err != nil {
			return err
		}
	}
	if cfg.out.medians != "" {
		c, settings, err := pages[0].parsed()
		if err == nil {
			err = writeMedians(cfg.out.medians, c, settings, pages[0])
		}
		if err != nil {
			return err
		}
	}
	return writeCharts(cfg, pages...)
}

// readRun parses the content of a file of --json.
func readRun(name string, text []byte) (*jsonFile, error) {
	file := &jsonFile{Settings: &config{}}
	if err := json.Unmarshal(text, file); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if file.Program != "peerbench" || file.Version != jsonVersion {
		return nil, fmt.Errorf("%s has version %d of program %q; version %d of peerbench is supported",
			name, file.Version, file.Program, jsonVersion)
	}
	return file, nil
}

// readTables reads the last run and the last run of --scale from between the marks of a page.
func readTables(text string) (pages []*page) {
	for _, marks := range [][2]string{{markBegin, markEnd}, {scaleBegin, scaleEnd}} {
		_, after, begins := strings.Cut(text, marks[0])
		part, _, ends := strings.Cut(after, marks[1])
		p := readPage(part)
		if !begins || !ends || len(p.tables) == 0 {
			continue
		}
		if marks[0] == scaleBegin {
			p.others = readOthers(text)
		}
		pages = append(pages, p)
	}
	return pages
}

// readOthers reads the table of other engines' fills, nil if the page has none.
func readOthers(text string) *table {
	_, after, begins := strings.Cut(text, othersBegin)
	part, _, ends := strings.Cut(after, othersEnd)
	if !begins || !ends {
		return nil
	}
	t := &table{}
	t.readRows(strings.TrimSpace(part))
	return t
}

// readPage parses the output of markdown.
func readPage(text string) *page {
	p := &page{}
	var t *table
	for part := range strings.SplitSeq(text, "\n\n") {
		part = strings.TrimSpace(part)
		title, bold := strings.CutPrefix(part, "**")
		switch {
		case part == "":
		case bold:
			p.tables = append(p.tables, table{title: strings.TrimSuffix(title, "**")})
			t = &p.tables[len(p.tables)-1]
		case strings.HasPrefix(part, "|") && t != nil:
			t.readRows(part)
		case t == nil:
			p.lines = append(p.lines, strings.Join(strings.Fields(part), " "))
		default:
			t.note = strings.Join(strings.Fields(part), " ")
		}
	}
	return p
}

func (t *table) readRows(text string) {
	for line := range strings.Lines(text) {
		switch {
		case strings.HasPrefix(line, "| --- |"):
		case t.head == nil:
			t.head = tableCells(line)
		default:
			t.rows = append(t.rows, tableCells(line))
		}
	}
}

func tableCells(line string) []string {
	cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
	for i := range cells {
		cells[i] = strings.TrimSpace(cells[i])
	}
	return cells
}

// parsedCell returns the number in a cell, and NaN if there is none.
func parsedCell(cell string) float64 {
	v, err := strconv.ParseFloat(strings.ReplaceAll(cell, ",", ""), 64)
	if err != nil {
		return math.NaN()
	}
	return v
}

// writeSummary writes, for each workload, SieveDB's figures and those of the other engine with the highest rate.
func writeSummary(name string, pages []*page, kept keptRuns) error {
	t := table{head: []string{"ops/s", ourTitle, "best other engine", "ratio", "CPU µs/op", "other's", "peak MB", "other's"}}
	for _, w := range allTables(pages) {
		ours := w.rowOf(ourTitle)
		other := w.bestOther(ours)
		if !w.isDetails() || ours < 0 || other < 0 {
			continue
		}
		best := count(w.value(other, opsColumn)) + ", " + w.rows[other][0]
		cells := []string{w.title, count(w.value(ours, opsColumn)), best, kept.ratio(&w, ours)}
		for _, names := range [][]string{{cpuColumn, settledCPUColumn}, {peakColumn}} {
			cells = append(cells, w.cell(ours, names), w.cell(other, names))
		}
		t.rows = append(t.rows, cells)
	}
	if len(t.rows) == 0 {
		return errors.New("--summary: no workload has SieveDB and another engine")
	}
	text := t.markdown() + "\n"
	if len(kept) > 0 {
		text += kept.machines()
	}
	return writeBetween(name, summaryBegin, summaryEnd, text)
}

// cell returns a row's cell in the first of the columns that the table has.
func (t *table) cell(row int, columns []string) string {
	for _, name := range columns {
		if i := slices.Index(t.head, name); i >= 0 && i < len(t.rows[row]) {
			return t.rows[row][i]
		}
	}
	return known(false, "")
}

func allTables(pages []*page) (all []table) {
	for _, p := range pages {
		all = append(all, p.tables...)
	}
	return all
}
