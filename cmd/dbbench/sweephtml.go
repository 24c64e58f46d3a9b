package main

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/sievedb/sievedb/cmd/internal/bench"
	"github.com/sievedb/sievedb/cmd/internal/chart"
	"github.com/sievedb/sievedb/internal/disk/outfile"
)

//go:embed sweep.html.tmpl
var sweepPageText string

var sweepPage = template.Must(template.New("sweep").Funcs(template.FuncMap{"stores": newStoreTable}).Parse(sweepPageText))

// page is the data of the template.
type page struct {
	*sweep
	Noun       string
	Intro      string
	Tiles      []tile
	Findings   []finding
	Advice     string
	Kinds      []string
	Choices    []choice
	Sections   []section
	PeerFigs   []figure
	PeerRows   []storeRow
	StoreRows  []storeRow
	RateHeads  []string
	RateRows   []rateRow
	Conditions []finding
	Legend     []legend // for the small charts
	ChartCSS   template.CSS
}

// tile is a figure in large print, with what it counts and for which filters.
type tile struct {
	Name, Value, Text, What string
	Own                     bool // SieveDB's default
}

// legend is the mark and the name of a kind.
type legend struct {
	Class  string
	Swatch template.HTML
	Noun   string
}

// section is a heading with charts.
type section struct {
	Title, Lead string
	Small       bool
	Figures     []figure
}

// storeRow is a line of the table of stores, and rateRow one of the table of rates.
type storeRow struct {
	Name                                                          string
	Bits, Memory, Absent, AbsentPredicted, Stored, TA, TS, Making string
}

// storeTable is a table of stores; Making adds the column of the time to build.
type storeTable struct {
	Label  string
	Rows   []storeRow
	Making bool
}

func newStoreTable(label string, rows []storeRow, making bool) storeTable {
	return storeTable{label, rows, making}
}

type rateRow struct {
	Name, AnyKeys string
	Cells         []rateCell
}

type rateCell struct {
	Text, Interval string
	Off            bool // the interval does not contain the prediction for these keys
}

// writeHTML writes the page of --html.
func (out *sweep) writeHTML(cfg *config) error {
	if dir := filepath.Dir(cfg.HTML); dir != "." {
		if _, err := os.Stat(dir); err != nil {
			return fmt.Errorf("--html: %w", err)
		}
	}
	f, err := outfile.Create(cfg.HTML, 0o644)
	if err != nil {
		return fmt.Errorf("--html: %w", err)
	}
	err = sweepPage.Execute(f, out.page(cfg, time.Now()))
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return fmt.Errorf("--html: %w", err)
	}
	return nil
}

func (out *sweep) page(cfg *config, now time.Time) *page {
	p := &page{
		sweep: out, Noun: "keys", Findings: out.findings(), Advice: out.advice(), Choices: out.choices(),
		Conditions: out.conditions(cfg, now), ChartCSS: chart.CSS,
	}
	if out.words {
		p.Noun = "words"
	}
	for _, k := range out.measuredKinds() {
		p.Kinds = append(p.Kinds, k.noun)
		p.Legend = append(p.Legend, legend{k.series.Class(), template.HTML(chart.Swatch(k.series)), k.noun})
	}
	if len(p.Kinds) == 0 { // only "none": there are no rates and no choice
		p.Advice, p.Choices, p.Findings = "There is no choice: the sweep had no filters.", nil, nil
	}
	p.Intro = fmt.Sprintf("%s stored and %s absent %s, and %s of generated keys with %s of each; %s, on %s.",
		bench.Grouped(uint64(out.Shapes[0].Stored)), bench.Grouped(uint64(out.Shapes[0].Absent)), p.Noun,
		bench.Counted(uint64(len(out.Shapes)-1), "shape"), bench.Grouped(uint64(out.Shapes[len(out.Shapes)-1].Stored)),
		bench.Counted(uint64(len(out.Stores)), "store"), now.UTC().Format("2 January 2006"))
	p.Tiles = out.tiles()
	p.PeerFigs = out.peerFigures()
	p.Sections = out.sections()
	p.addTables()
	for i := range p.Findings {
		p.Findings[i].Text = unbroken(p.Findings[i].Text)
	}
	p.Advice = unbroken(p.Advice)
	return p
}

var numberAndUnit = regexp.MustCompile(`(\d) (%|µs|ns|B|KiB|MiB|bits)`)

// unbroken joins numbers and their units with non-breaking spaces.
func unbroken(text string) string { return numberAndUnit.ReplaceAllString(text, "$1\u00a0$2") }

// tiles has a card for each store of Peers.
func (out *sweep) tiles() (tiles []tile) {
	for _, r := range out.Peers {
		l := r.peer()
		t := tile{Name: upperFirst(l.noun), Value: digits3(r.Absent.readsPerGet()), Own: l.name == ownName}
		t.Text = "disk reads to learn that a key is absent"
		t.What = l.what
		if r.FilterBytes > 0 {
			t.What += fmt.Sprintf(": %s in memory", bench.SizeText(r.FilterBytes))
		}
		tiles = append(tiles, t)
	}
	return tiles
}

func (out *sweep) sections() []section {
	reads := section{Title: "Disk reads per lookup", Lead: out.storeText(), Figures: out.readFigures()}
	if len(out.measuredKinds()) == 0 {
		reads.Figures = reads.Figures[:2]
		return []section{reads}
	}
	return []section{
		{Title: "False-positive rates", Figures: out.rateFigures(), Lead: "A filter answers “not here” or “perhaps”. " +
			"For these shares of the absent keys it answers “perhaps”, and each of them costs a read."},
		{Title: "How programs write their keys", Small: true, Figures: out.shapeFigures(), Lead: "One table of all keys, queried for neighbours of the stored ones. " +
			"Hollow circles: LevelDB's bloom in tables of " + bench.Grouped(uint64(out.Shapes[len(out.Shapes)-1].Small.TableKeys)) + " keys. " +
			"Dotted line: absent keys with the 32-bit hash of a stored key. Lines: predicted, these keys included. " +
			"Vertical axis: share of absent keys that pass. Horizontal axis: bits per key."},
		reads,
		{Title: "Time per lookup", Figures: out.timeFigures()},
		{Title: "Cost of filters", Figures: out.memoryFigures()},
	}
}

// storeText describes the store of the lookups.
func (out *sweep) storeText() string {
	var parts []string
	for _, l := range out.Levels {
		parts = append(parts, fmt.Sprintf("level %d: %s, %s", l.Level, bench.Counted(uint64(l.Tables), "table"), bench.SizeText(l.Bytes)))
	}
	cache := "no block cache"
	if out.CacheBytes > 0 {
		cache = "a block cache of " + bench.SizeText(uint64(out.CacheBytes))
	}
	return fmt.Sprintf("A store of the real keys with values of %d bytes, in levels as in a large store (%s), all tables open, %s. "+
		"The store is the same for each filter. Reads are counted at the file system.",
		out.ValueSize, strings.Join(parts, "; "), cache)
}

func (p *page) addTables() {
	for _, r := range p.Peers {
		p.PeerRows = append(p.PeerRows, newStoreRow(r))
	}
	for _, r := range p.Stores {
		p.StoreRows = append(p.StoreRows, newStoreRow(r))
	}
	for _, s := range p.Shapes {
		p.RateHeads = append(p.RateHeads, s.Shape)
	}
	for i := range p.Shapes[0].Large.Rates {
		first := &p.Shapes[0].Large.Rates[i]
		row := rateRow{Name: first.named(), AnyKeys: rateText(p.Shapes[len(p.Shapes)-1].Large.Rates[i].AnyKeys)}
		for _, s := range p.Shapes {
			r := &s.Large.Rates[i]
			interval := fmt.Sprintf("%s to %s, predicted %s", rateText(r.Low), rateText(r.High), rateText(r.Predicted))
			row.Cells = append(row.Cells, rateCell{rateText(r.Rate), interval, !r.agrees()})
		}
		p.RateRows = append(p.RateRows, row)
	}
}

func newStoreRow(r *storeRun) storeRow {
	row := storeRow{
		Name: r.named(), Bits: fmt.Sprintf("%.2f", r.BitsPerKey), Memory: bench.SizeText(r.FilterBytes),
		Absent:          digits3(r.Absent.readsPerGet()),
		AbsentPredicted: digits3(r.Absent.Predicted / float64(max(r.Absent.Gets, 1))),
		Stored:          digits3(r.Present.readsPerGet()),
		TA:              r.Absent.timeText(), TS: r.Present.timeText(),
		Making: spreadText(r.MakeNanosPerKey, r.MakeNanosLow, r.MakeNanosHigh),
	}
	if r.MakeNanosPerKey == 0 {
		row.Making = "–"
	}
	if r.FilterBytes == 0 {
		row.Memory = "–"
	}
	return row
}

// timeText formats the time per lookup with its spread.
func (p *passRun) timeText() string { return spreadText(p.P10, p.Low, p.High) }

// spreadText formats a median, with the least and greatest value if they differ.
func spreadText(median, low, high float64) string {
	if low == high {
		return digits3(median)
	}
	return fmt.Sprintf("%s (%s–%s)", digits3(median), digits3(low), digits3(high))
}

// conditions returns everything that is needed to repeat the run.
func (out *sweep) conditions(cfg *config, now time.Time) []finding {
	machine := fmt.Sprintf("%s/%s, %s", runtime.GOOS, runtime.GOARCH, bench.Counted(uint64(runtime.NumCPU()), "processor"))
	if model := processorModel(); model != "" {
		machine += ", " + model
	}
	return []finding{
		{"Command", commandLine(cfg.args)},
		{"Date", now.UTC().Format("2006-01-02 15:04 MST") + fmt.Sprintf("; the run took %.0f s", out.Took.Seconds())},
		{"Machine", machine},
		{"Versions", "SieveDB " + sieveVersion() + ", " + runtime.Version()},
		{"Times", fmt.Sprintf("the median of %s, in turns with the other stores; in brackets and as bands, the least and the greatest. "+
			"Each is the tenth percentile of slices of %d lookups, or the least time to build a filter", bench.Counted(uint64(out.Repeat), "repetition"), sliceLookups)},
		{"Seed", fmt.Sprintf("%d; keys, levels and rates are the same in each run, times are not", cfg.Seed)},
	}
}

// commandLine returns the shell command that repeats a run.
func commandLine(args []string) string {
	line := "go run ./cmd/dbbench"
	for _, a := range args {
		if strings.ContainsAny(a, " '\"\\$`*?;&|<>()[]{}!#~\t\n") || a == "" {
			a = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
		line += " " + a
	}
	return line
}

// processorModel returns Linux's name of the processor, or "".
func processorModel() string {
	text, _ := os.ReadFile("/proc/cpuinfo") // it does not exist on other systems
	for line := range strings.Lines(string(text)) {
		if name, model, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(model)
		}
	}
	return ""
}

// sieveVersion returns the revision that the program was built from, if the go command recorded it.
func sieveVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "(unknown version)"
	}
	revision, dirty := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value[:min(12, len(s.Value))]
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = " with changes"
		}
	}
	if revision == "" {
		return info.Main.Version
	}
	return revision + dirty
}

// write prints the stores and the findings as text.
func (out *sweep) write(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "filter\tbits per key\tmemory\tfalse positives\tpredicted\treads, absent\treads, stored\tµs, absent\tµs, stored\t")
	for _, r := range out.Stores {
		rate, predicted := "-", "-"
		if f := out.Shapes[0].Small.of(r.sweepPoint); f != nil {
			rate, predicted = rateText(f.Rate), rateText(f.Predicted)
		}
		fmt.Fprintf(t, "%s\t%.2f\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", r.sweepPoint, r.BitsPerKey, bench.SizeText(r.FilterBytes), rate, predicted,
			digits3(r.Absent.readsPerGet()), digits3(r.Present.readsPerGet()), digits3(r.Absent.P10), digits3(r.Present.P10))
	}
	for _, r := range out.Peers {
		fmt.Fprintf(t, "%s\t%.2f\t%s\t-\t-\t%s\t%s\t%s\t%s\t\n", r.named(), r.BitsPerKey, bench.SizeText(r.FilterBytes),
			digits3(r.Absent.readsPerGet()), digits3(r.Present.readsPerGet()), digits3(r.Absent.P10), digits3(r.Present.P10))
	}
	err := t.Flush()
	if len(out.measuredKinds()) == 0 {
		return err
	}
	fmt.Fprintln(w)
	for _, f := range out.findings() {
		fmt.Fprintf(w, "%s: %s\n", f.Head, f.Text)
	}
	_, err = fmt.Fprintln(w, out.advice())
	return err
}
