package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"io"
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

var sweepPage = template.Must(template.New("sweep").Parse(sweepPageText))

// page is the data of the template.
type page struct {
	Noun, Intro, Advice, Store string
	Tiles                      []tile
	Peers, Rates               []figure
	Heads                      []string
	Rows                       [][]string
	Conditions                 [][2]string // a heading and its text
	ChartCSS                   template.CSS
}

// tile is a figure in large print, with what it counts and for which filters.
type tile struct {
	Name, Value, What string
	Own               bool // SieveDB's default
}

// writeHTML writes the page of --html.
func (out *sweep) writeHTML(cfg *config) error {
	var text bytes.Buffer
	err := sweepPage.Execute(&text, out.page(cfg, time.Now()))
	if err == nil {
		err = outfile.Write(cfg.HTML, text.Bytes(), 0o644)
	}
	if err != nil {
		return fmt.Errorf("--html: %w", err)
	}
	return nil
}

func (out *sweep) page(cfg *config, now time.Time) *page {
	p := &page{
		Noun: out.noun + "s", Advice: unbroken(out.advice()), Store: out.storeText(), Tiles: out.tiles(), Peers: out.peerFigures(),
		Rates: out.rateFigures(), Heads: sweepHeads, Rows: out.rows(), Conditions: out.conditions(cfg, now), ChartCSS: template.CSS(chart.CSS),
	}
	p.Intro = fmt.Sprintf("%s stored and %s absent %s, and %s of generated keys with %s of each; %s, on %s.",
		bench.Grouped(uint64(out.Shapes[0].Stored)), bench.Grouped(uint64(out.Shapes[0].Absent)), p.Noun,
		bench.Counted(uint64(len(out.Shapes)-1), "shape"), bench.Grouped(uint64(out.Shapes[len(out.Shapes)-1].Stored)),
		bench.Counted(uint64(len(out.Stores)), "store"), now.UTC().Format("2 January 2006"))
	return p
}

var numberAndUnit = regexp.MustCompile(`(\d) (%|µs|ns|B|KiB|MiB|bits)`)

// unbroken joins numbers and their units with non-breaking spaces.
func unbroken(text string) string { return numberAndUnit.ReplaceAllString(text, "$1\u00a0$2") }

// tiles has a card for each store of Peers.
func (out *sweep) tiles() (tiles []tile) {
	for _, r := range out.Peers {
		l := r.peer()
		t := tile{Name: strings.ToUpper(l.noun[:1]) + l.noun[1:], Value: digits3(r.Absent.readsPerGet()), What: l.what, Own: l.name == ownName}
		if r.FilterBytes > 0 {
			t.What += fmt.Sprintf(": %s in memory", bench.SizeText(r.FilterBytes))
		}
		tiles = append(tiles, t)
	}
	return tiles
}

// storeText describes the store of the lookups.
func (out *sweep) storeText() string {
	return fmt.Sprintf("A store of the real keys with values of %d bytes, in levels as in a large store (%s), all tables open, %s. "+
		"Reads are counted at the file system; the operating system’s cache serves them, so reads from a device take far longer.",
		out.ValueSize, levelsText(out.Levels), cacheText(out.CacheBytes))
}

// sweepHeads are the headings of the columns of rows.
var sweepHeads = []string{"filter", "bits per key", "memory", "false positives", "predicted", "reads, absent", "reads, stored",
	"µs, absent", "µs, stored", "ns per key to build"}

// rows has a line for each store. The false positives are those of the real keys in small tables.
func (out *sweep) rows() (rows [][]string) {
	for i, r := range append(out.Stores[:len(out.Stores):len(out.Stores)], out.Peers...) {
		name, rate, predicted, making := r.sweepPoint.String(), "-", "-", "-"
		if i >= len(out.Stores) {
			name = r.named()
		} else if f := out.Shapes[0].Small.of(r.sweepPoint); f != nil {
			rate, predicted, making = rateText(f.Rate), rateText(f.Predicted), digits3(r.MakeNanosPerKey)
		}
		rows = append(rows, []string{name, fmt.Sprintf("%.2f", r.BitsPerKey), bench.SizeText(r.FilterBytes), rate, predicted,
			digits3(r.Absent.readsPerGet()), digits3(r.Present.readsPerGet()), digits3(r.Absent.Micros), digits3(r.Present.Micros), making})
	}
	return rows
}

// write prints the stores and the advice as text.
func (out *sweep) write(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, row := range append([][]string{sweepHeads}, out.rows()...) {
		fmt.Fprintln(t, strings.Join(row, "\t")+"\t")
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%s\n", out.advice())
	return err
}

// conditions returns everything that is needed to repeat the run.
func (out *sweep) conditions(cfg *config, now time.Time) [][2]string {
	machine := fmt.Sprintf("%s/%s, %s", runtime.GOOS, runtime.GOARCH, bench.Counted(uint64(runtime.NumCPU()), "processor"))
	version := "(unknown version)"
	if info, ok := debug.ReadBuildInfo(); ok {
		version = info.Main.Version
	}
	return [][2]string{
		{"Command", commandLine(cfg.args)},
		{"Date", now.UTC().Format("2006-01-02 15:04 MST") + fmt.Sprintf("; the run took %.0f s", out.Took.Seconds())},
		{"Machine", machine},
		{"Versions", "SieveDB " + version + ", " + runtime.Version()},
		{"Times", fmt.Sprintf("the median of %s, in turns with the other stores. "+
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

// referenceBits is the number of bits in texts: the store's default, or the closest of --bits.
const referenceBits = 10

func (out *sweep) reference() int {
	best := out.Bits[0]
	for _, b := range out.Bits {
		if max(b-referenceBits, referenceBits-b) < max(best-referenceBits, referenceBits-best) {
			best = b
		}
	}
	return best
}

// named returns a kind with its bits, for text.
func (p sweepPoint) named() string {
	k, ok := findSweepKind(p.Kind)
	switch {
	case !ok:
		return p.peer().noun
	case p.Bits == 0:
		return k.noun
	}
	return fmt.Sprintf("%s of %d bits", k.noun, p.Bits)
}

// peer returns the layout of a store of Peers.
func (p sweepPoint) peer() filterLayout {
	for _, l := range append([]filterLayout{noFilters}, peerLayouts...) {
		if l.name == p.Kind {
			return l
		}
	}
	return filterLayout{name: ownName, noun: ownNoun + "'s default", what: ownWhat}
}

// unsoundShapes returns the shapes on which the rate of a kind with the reference bits is far above its policy's
// prediction in a large table: by the rule of DB.Filters, if the whole interval is above twice the prediction
// plus 0.2 %.
func (out *sweep) unsoundShapes(p sweepPoint) (names []string) {
	for _, s := range out.Shapes {
		if r := s.Large.of(p); r != nil && r.Low > 2*r.AnyKeys+0.002 {
			names = append(names, s.Shape)
		}
	}
	return names
}

// advice returns which kind to use, and why.
func (out *sweep) advice() string {
	var least, cheapest *storeRun
	var failing []string
	for _, r := range out.Stores {
		if r.Kind == noFilters.name || r.Bits != 0 && r.Bits != out.reference() {
			continue
		}
		if names := out.unsoundShapes(r.sweepPoint); len(names) > 0 {
			failing = append(failing, fmt.Sprintf("Avoid %s, unless another program has to read it: in large tables, its hash collides for keys written as %s.",
				r.named(), strings.Join(names, ", ")))
			continue
		}
		if least == nil || r.Absent.Reads < least.Absent.Reads {
			least = r
		}
		if cheapest == nil || r.MakeNanosPerKey < cheapest.MakeNanosPerKey {
			cheapest = r
		}
	}
	if least == nil {
		return strings.Join(append(failing, "No measured kind keeps its rate on every key shape; measure others."), " ")
	}
	text := fmt.Sprintf("Use %s: of the kinds that keep their rate on every key shape, it reads least", least.named())
	if least == cheapest {
		text += " and is built fastest."
	} else {
		text += fmt.Sprintf(" (%s disk reads per absent key, and %s of memory). If data is rewritten all the time, use %s (%s and %s), "+
			"which is built %s times as fast.", digits3(least.Absent.readsPerGet()), bench.SizeText(least.FilterBytes), cheapest.named(),
			digits3(cheapest.Absent.readsPerGet()), bench.SizeText(cheapest.FilterBytes), digits3(least.MakeNanosPerKey/cheapest.MakeNanosPerKey))
	}
	return strings.Join(append([]string{text}, failing...), " ")
}
