package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/sievedb/sievedb/cmd/internal/bench"
	"github.com/sievedb/sievedb/cmd/peerbench/engine"
	"github.com/sievedb/sievedb/vfs/outfile"
)

// conditions describes the circumstances of a run.
type conditions struct {
	Date       time.Time    `json:"date"`
	OS         string       `json:"os"`
	Arch       string       `json:"arch"`
	Kernel     string       `json:"kernel"`
	Processor  string       `json:"processor"`
	Processors int          `json:"processors"`
	Memory     uint64       `json:"memory_bytes"`
	Load       string       `json:"load"` // after the run
	Go         string       `json:"go"`
	Git        string       `json:"git,omitempty"`     // the commit, if the program is started in the repository
	ClockNanos float64      `json:"clock_nanoseconds"` // of one reading, for each timed operation
	Engines    []engineInfo `json:"engines"`
	Added      []addition   `json:"added,omitempty"`
}

// An addition is a later run whose results were merged with those of the first one.
type addition struct {
	Date      time.Time `json:"date"`
	Load      string    `json:"load"`
	Go        string    `json:"go"`
	Engines   []string  `json:"engines"`
	Workloads []string  `json:"workloads"`
}

func (a *addition) String() string {
	return fmt.Sprintf("Measured at %s, with %s and load %s: %s of %s.",
		a.Date.Format(time.RFC3339), a.Go, a.Load, strings.Join(a.Workloads, ", "), strings.Join(a.Engines, ", "))
}

type engineInfo struct {
	Name    string `json:"name"`
	Title   string `json:"title"`
	Version string `json:"version"`
	Remark  string `json:"remark"`
	LeftOut string `json:"left_out,omitempty"`
	// LosesUnsynced: writes without a sync may be lost when the process is killed.
	LosesUnsynced bool `json:"loses_unsynced"`
}

func newConditions(cfg *config, began time.Time, drivers []engine.Driver) conditions {
	c := conditions{
		Date: began.UTC().Truncate(time.Second), OS: runtime.GOOS, Arch: runtime.GOARCH, Go: runtime.Version(),
		Processors: runtime.NumCPU(), ClockNanos: clockNanos(),
		Kernel: firstLine("/proc/sys/kernel/osrelease"), Processor: field("/proc/cpuinfo", "model name"), Load: firstLine("/proc/loadavg"),
	}
	fmt.Sscanf(field("/proc/meminfo", "MemTotal"), "%d kB", &c.Memory)
	c.Memory <<= 10
	commit, _ := exec.Command("git", "--no-optional-locks", "describe", "--always", "--dirty").Output()
	c.Git = strings.TrimSpace(string(commit))
	for _, d := range drivers {
		if d.LeftOut != "" || slices.Contains(cfg.Engines, d.Name) {
			c.Engines = append(c.Engines, engineInfo{d.Name, d.Title, d.Version, d.Remark, d.LeftOut, d.LosesUnsynced})
		}
	}
	return c
}

func clockNanos() float64 {
	const n = 100_000
	began := time.Now()
	for range n {
		time.Since(began)
	}
	return float64(time.Since(began).Nanoseconds()) / n
}

func firstLine(name string) string {
	text, _ := os.ReadFile(name) // a missing file is an empty line
	line, _, _ := strings.Cut(string(text), "\n")
	return line
}

// field returns the text after "name:" in a file, or "".
func field(file, name string) string {
	f, err := os.Open(file)
	if err != nil {
		return ""
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if key, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func (c *conditions) about(engine string) engineInfo {
	for _, e := range c.Engines {
		if e.Name == engine {
			return e
		}
	}
	return engineInfo{Name: engine, Title: engine}
}

// The mark of engines that may lose unsynced writes, and its explanation.
const (
	lossMark = " †"
	lossNote = "† Unsynced writes of this engine may be lost when the process is killed. " +
		"Engines without the mark keep them: the operating system has them when they are acknowledged."
)

// titles are the titles of the engines in the order of --engines, and a note for below the table.
type titles struct {
	list []string
	note string
}

// titles returns the engines' titles. If unsynced is set, it marks those that may lose unsynced writes.
func (rep *report) titles(unsynced bool) (t titles) {
	for _, name := range rep.cfg.Engines {
		about := rep.conditions.about(name)
		if unsynced && about.LosesUnsynced {
			about.Title += lossMark
			t.note = lossNote
		}
		t.list = append(t.list, about.Title)
	}
	return t
}

// machine describes the hardware and the system.
func (c *conditions) machine() string {
	return fmt.Sprintf("%d × %s, %s, %s/%s", c.Processors, c.Processor, bench.SizeText(c.Memory), c.OS, c.Arch)
}

// The beginnings of the lines of a report that name engines.
const (
	enginesLine = "Engines: "
	leftOutLine = "Not included: "
)

// lines returns the conditions as text.
func (rep *report) lines() []string {
	c := &rep.conditions
	machine := fmt.Sprintf("%s. %s %s, %s; load %s. A reading of the clock takes %.0f ns.",
		c.Date.Format(time.RFC3339), c.machine(), c.Kernel, c.Go, c.Load, c.ClockNanos)
	var in, out []string
	for _, e := range c.Engines {
		if e.LeftOut != "" {
			out = append(out, e.Title+" ("+e.LeftOut+")")
		} else {
			in = append(in, e.Title+" "+e.Version)
		}
	}
	lines := []string{machine}
	for _, a := range c.Added {
		lines = append(lines, a.String())
	}
	lines = append(lines, rep.cfg.String(), enginesLine+strings.Join(in, ", ")+".")
	if len(out) > 0 {
		lines = append(lines, leftOutLine+strings.Join(out, ", ")+".")
	}
	return lines
}

// jsonVersion is the version of the form of a jsonFile.
const jsonVersion = 1

// jsonFile is the content of --json's file.
type jsonFile struct {
	Version    int        `json:"version"` // of this form
	Program    string     `json:"program"`
	Conditions conditions `json:"conditions"`
	Settings   *config    `json:"settings"`
	Complete   bool       `json:"complete"` // false: an error ended the run
	Results    []*result  `json:"results"`  // in the order of measurement
}

// writeFiles writes the files that the flags name. If the run is not complete, it writes only the JSON file.
func (rep *report) writeFiles(complete bool) (err error) {
	if rep.cfg.out.json != "" {
		text, e := json.MarshalIndent(jsonFile{jsonVersion, "peerbench", rep.conditions, rep.cfg, complete, rep.results}, "", "  ")
		err = errors.Join(e, outfile.Write(rep.cfg.out.json, append(text, '\n'), 0o644))
	}
	if rep.cfg.out.medians != "" && complete {
		err = errors.Join(err, writeMedians(rep.cfg.out.medians, rep.conditions, rep.cfg, rep.page()))
	}
	if rep.cfg.out.markdown != "" && complete {
		err = errors.Join(err, rep.writeMarkdown(rep.cfg.out.markdown))
	}
	if complete {
		err = errors.Join(err, writeCharts(rep.cfg, rep.page()))
	}
	return err
}

// writeCharts writes the files that need only tables.
func writeCharts(cfg *config, pages ...*page) (err error) {
	kept, err := readRuns(cfg.out.runs)
	if err != nil {
		return err
	}
	if cfg.out.svg != "" {
		err = writeSVG(cfg.out.svg, pages)
	}
	if cfg.out.summary != "" {
		err = errors.Join(err, writeSummary(cfg.out.summary, pages, kept))
	}
	if cfg.out.readme != "" {
		err = errors.Join(err, writeReadme(cfg.out.readme, pages, kept))
	}
	return err
}
