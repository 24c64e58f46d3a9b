package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/sievedb/sievedb/cmd/internal/bench"
	"github.com/sievedb/sievedb/vfs/outfile"
)

// writeMedians writes a file of --json's form in which each engine has one result of a workload: the medians of the
// page's tables that other pages need, with costs for a million operations.
func writeMedians(name string, c conditions, settings *config, p *page) error {
	file := jsonFile{Version: jsonVersion, Program: "peerbench", Conditions: c, Settings: settings, Complete: true}
	for _, t := range p.tables {
		for row := 0; t.isDetails() && row < len(t.rows); row++ {
			i := slices.IndexFunc(c.Engines, func(e engineInfo) bool { return e.Title == t.plain(row) })
			if i < 0 {
				return fmt.Errorf("--medians: the conditions of the run do not have its engine %s", t.plain(row))
			}
			file.Results = append(file.Results, t.medians(row, c.Engines[i].Name))
		}
	}
	if len(file.Results) == 0 {
		return errors.New("--medians: the run has no workloads")
	}
	text, err := json.Marshal(file)
	lines := strings.ReplaceAll(string(text), `{"engine":`, "\n"+`{"engine":`) // a result a line
	return errors.Join(err, outfile.Write(name, []byte(lines+"\n"), 0o644))
}

// medians returns a row's figures as a result.
func (t *table) medians(row int, engine string) *result {
	at := func(column string) float64 {
		if v := t.value(row, column); !math.IsNaN(v) {
			return v
		}
		return 0
	}
	megabytes := func(column string) uint64 { return uint64(at(column) * mb) }
	workload, threads, _ := strings.Cut(t.title, ", ")
	r := &result{Engine: engine, Workload: workload, Threads: 1, Ops: 1_000_000, OpsPerSec: at(opsColumn),
		CPUSeconds: at(cpuColumn) + at(settledCPUColumn), Latency: &latency{P9999: at("p99.99")},
		PeakBytes: megabytes(peakColumn), EndBytes: megabytes("end MB"), DiskBytes: megabytes("disk MB")}
	_, _ = fmt.Sscanf(threads, "%d", &r.Threads) // titles have numbers above one
	if slices.Contains(t.head, settledCPUColumn) {
		r.SettleSeconds = new(float64)
	}
	if v := t.value(row, "write amp."); !math.IsNaN(v) {
		r.WriteAmp = &v
	}
	return r
}

// The lines of a page that report.lines writes, and one of them that an addition is.
var (
	pageLines = regexp.MustCompile(`(?s)^(\S+)\. (\d+) × (.*?), (\S+) (.)iB, (\w+)/(\w+) (\S*), (.*?); load (.*?)\. ` +
		`A reading of the clock takes (\d+) ns\.\n(.*\n)?(\S+) keys of .*?\((\w+)\), values of (\d+) bytes.*? ` +
		`snappy, (\S+) (.)iB of .*? (\d+) rounds?(?:; (\S+) open tables)?\.\n` + enginesLine + `(.*?)\.(?:\n|$)`)
	addedLine = regexp.MustCompile(`Measured at (\S+), with (.*) and load (.*?): (.*?) of (.*)\.\n`)
)

// parsed returns the conditions and settings in a page's lines. The number of lookups is not there: it is taken to be
// that of keys, as without --reads.
func (p *page) parsed() (c conditions, s *config, err error) {
	text := strings.Join(p.lines, "\n")
	m := pageLines.FindStringSubmatch(text)
	if m == nil {
		return c, nil, errors.New("--medians: the page does not begin with the conditions of a run")
	}
	number := func(i int) int { return int(parsedCell("0" + m[i])) }
	size := func(i int) float64 { return parsedCell(m[i]) * math.Exp2(float64(10+10*strings.Index("KMGT", m[i+1]))) }
	c = conditions{Processors: number(2), Processor: m[3], Memory: uint64(size(4)), OS: m[6], Arch: m[7], Kernel: m[8],
		Go: m[9], Load: m[10], ClockNanos: parsedCell(m[11])}
	c.Date, err = time.Parse(time.RFC3339, m[1])
	s = &config{Num: number(13), Reads: number(13), KeyShape: m[14], ValueSize: number(15), Rounds: number(18)}
	s.CacheBytes, s.OpenFiles = int64(size(16)), number(19)
	_, titles := p.engines()
	for _, d := range allDrivers {
		if slices.Contains(titles, d.Title) {
			_, version, _ := strings.Cut(", "+m[20], ", "+d.Title+" ")
			version, _, _ = strings.Cut(version, ", ")
			c.Engines = append(c.Engines, engineInfo{d.Name, d.Title, version, "", "", d.LosesUnsynced})
			s.Engines = append(s.Engines, d.Name)
		}
	}
	for _, m := range addedLine.FindAllStringSubmatch(m[12], -1) {
		a := addition{Go: m[2], Load: m[3], Workloads: strings.Split(m[4], ", ")}
		a.Date, _ = time.Parse(time.RFC3339, m[1])
		for _, title := range titles {
			if strings.Contains(", "+m[5]+",", ", "+title+",") {
				a.Engines = append(a.Engines, title)
			}
		}
		c.Added = append(c.Added, a)
	}
	if again := strings.Join(assemble(s, c, nil).lines(), "\n"); err == nil && !strings.HasPrefix(text, again) {
		err = fmt.Errorf("--medians: the page should begin with:\n%s", again)
	}
	return c, s, err
}

// keptRuns are the runs of --runs, of one machine each.
type keptRuns []*report

func readRuns(dir string) (all keptRuns, err error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if dir == "" || err != nil {
		return nil, err
	}
	for _, name := range names {
		var run *jsonFile
		text, err := os.ReadFile(name)
		if err == nil {
			run, err = readRun(name, text)
		}
		if err != nil {
			return nil, fmt.Errorf("--runs: %w", err)
		}
		all = append(all, assemble(run.Settings, run.Conditions, run.Results))
		if one, two := all[0].cfg.String(), run.Settings.String(); one != two {
			return nil, fmt.Errorf("--runs: %s has other settings than %s: %s", name, names[0], two)
		}
	}
	return all, nil
}

// machines lists the runs, one a line.
func (all keptRuns) machines() string {
	text := fmt.Sprintf("Ranges are over %s:\n\n", bench.Counted(uint64(len(all)), "machine"))
	for _, rep := range all {
		c := &rep.conditions
		rows := bench.Counted(uint64(len(rep.rows)), "row")
		text += fmt.Sprintf("- %s %s, %s, %s\n", c.machine(), c.Kernel, c.Date.Format(time.DateOnly), rows)
	}
	return text + "\n"
}

// ratios returns an engine's ratio to the best other one in each run that measured both engines of the ratio in w.
func (all keptRuns) ratios(w *table, row int) (values []float64) {
	for _, rep := range all {
		for _, t := range rep.tables() {
			i := t.rowOf(w.plain(row))
			if t.isDetails() && t.title == w.title && i >= 0 && t.rowOf(w.plain(w.bestOther(row))) >= 0 {
				values = append(values, t.value(i, opsColumn)/t.value(t.bestOther(i), opsColumn))
			}
		}
	}
	return values
}

// ratio returns an engine's ratio to the best other one, and its range if several runs have it.
func (all keptRuns) ratio(w *table, row int) string {
	text := ratio(w.value(row, opsColumn), w.value(w.bestOther(row), opsColumn))
	if values := all.ratios(w, row); len(values) > 1 {
		text += fmt.Sprintf(" (%.2f–%.2f)", slices.Min(values), slices.Max(values))
	}
	return text
}
