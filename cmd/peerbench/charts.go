package main

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/sievedb/sievedb/cmd/internal/bench"
	"github.com/sievedb/sievedb/cmd/internal/chart"
	"github.com/sievedb/sievedb/vfs/outfile"
)

// page is a report as text: lines with the conditions, and tables. Charts are drawn from it, so
// they can be drawn from the tables of a stored page too.
type page struct {
	lines  []string
	tables []table
	others *table // other engines' fills, for the chart of sizes; nil: none
}

func (rep *report) page() *page { return &page{lines: rep.lines(), tables: rep.tables()} }

// The files of --svg are its value with these endings.
const (
	throughputSVG = "-throughput.svg"
	costSVG       = "-cost.svg"
	scaleSVG      = "-scale.svg"
)

// drawings returns the charts for which the page has figures, by the endings of their file names.
func (p *page) drawings() map[string][]byte {
	all := map[string][]byte{}
	if b := p.throughput(); len(b.Panels) > 0 {
		all[throughputSVG] = b.File()
	}
	if b := p.cost(); len(b.Panels) > 0 {
		all[costSVG] = b.File()
	}
	if c := p.scale(); c != nil {
		all[scaleSVG] = c.File(slices.Concat(p.othersRemark(), p.lines, p.notes())...)
	}
	return all
}

// writeSVG writes the charts of pages to files whose names start with prefix.
func writeSVG(prefix string, pages []*page) (err error) {
	drawn := false
	for _, p := range pages {
		for ending, content := range p.drawings() {
			err, drawn = errors.Join(err, outfile.Write(prefix+ending, content, 0o644)), true
		}
	}
	if !drawn {
		return errors.New("--svg: there are no figures to draw")
	}
	return err
}

// notes returns the different notes of the tables.
func (p *page) notes() (notes []string) {
	for _, t := range p.tables {
		if t.note != "" && !slices.Contains(notes, t.note) {
			notes = append(notes, t.note)
		}
	}
	return notes
}

// value returns the number in a column of a row, and NaN if there is none.
func (t *table) value(row int, column string) float64 {
	i := slices.Index(t.head, column)
	if i < 0 || i >= len(t.rows[row]) {
		return math.NaN()
	}
	return parsedCell(t.rows[row][i])
}

// isDetails reports whether the table has the figures of one workload.
func (t *table) isDetails() bool {
	return len(t.head) > 1 && t.head[0] == engineColumn && t.head[1] == opsColumn
}

// engines returns the titles of the engines in the tables of workloads: rows has a dagger if a table
// has it, plain has none.
func (p *page) engines() (rows, plain []string) {
	for _, t := range p.tables {
		for i := range t.rows {
			if !t.isDetails() {
				break
			}
			title, marked := strings.CutSuffix(t.rows[i][0], lossMark)
			j := slices.Index(plain, title)
			if j < 0 {
				j = len(plain)
				rows, plain = append(rows, title), append(plain, title)
			}
			if marked {
				rows[j] = title + lossMark
			}
		}
	}
	return rows, plain
}

// A column is a column of a workload's table, as a chart shows it.
type column struct {
	name string
	unit string // follows the workload's name
	text func(float64) string
}

// bars returns a chart with a row for each engine and a panel for each workload. A panel shows the
// first of the columns from choose that the workload's table has.
func (p *page) bars(id, title, remark string, choose func(workload string) []column) *chart.Bars {
	rows, plain := p.engines()
	b := &chart.Bars{ID: id, Title: title, Remarks: slices.Concat([]string{remark}, p.lines, p.notes()), Rows: rows, Strong: -1, Columns: 4}
	for i, name := range plain {
		b.Series = append(b.Series, 0)
		if name == ourTitle {
			b.Series[i], b.Strong = 2, i
		}
	}
	for _, t := range p.tables {
		columns := choose(t.title)
		i := slices.IndexFunc(columns, func(c column) bool { return slices.Contains(t.head, c.name) })
		if t.isDetails() && i >= 0 {
			b.Panels = append(b.Panels, t.panel(columns[i], plain))
		}
	}
	return b
}

func (t *table) panel(c column, engines []string) chart.Panel {
	panel := chart.Panel{Title: t.title + c.unit}
	for _, engine := range engines {
		row := t.rowOf(engine)
		v := math.NaN()
		if row >= 0 {
			v = t.value(row, c.name)
		}
		panel.Values, panel.Texts = append(panel.Values, v), append(panel.Texts, known(!math.IsNaN(v), c.text(v)))
	}
	return panel
}

// throughput compares the medians of all workloads.
func (p *page) throughput() *chart.Bars {
	return p.bars("throughput", "Operations per second", "Longer bars are better; each panel has its own scale.", func(string) []column {
		return []column{{opsColumn, "", compact}}
	})
}

// cost compares the cost of an operation: bytes read from the device if the page cache is cold, and
// otherwise CPU time. That of writes includes settling.
func (p *page) cost() *chart.Bars {
	const title = "CPU µs per operation; with a cold cache, bytes read from the device"
	return p.bars("cost", title, "Shorter bars are better; each panel has its own scale.", func(workload string) []column {
		if strings.HasPrefix(workload, "cold") {
			return []column{{diskColumn, ", bytes", compact}}
		}
		return []column{{cpuColumn, "", short}, {settledCPUColumn, "", short}}
	})
}

// compact formats a count with about three significant digits.
func compact(v float64) string {
	switch {
	case v >= 999_500:
		return strings.TrimSuffix(fmt.Sprintf("%.3g", v/1e6), ".0") + " M"
	case v >= 9_995:
		return fmt.Sprintf("%.0f k", v/1e3)
	case v >= 100:
		return count(v)
	}
	return short(v)
}

// scaleLine describes a line of the scale chart: a column of a table of --scale.
type scaleLine struct {
	name, table, column string
	micros              func(v float64) float64
}

func scaleLines() []scaleLine {
	all := []scaleLine{{"fillrandom, settled", fillsTitle, settledOpsColumn, func(opsPerSec float64) float64 { return 1e6 / opsPerSec }}}
	for _, name := range scaledReads {
		all = append(all, scaleLine{name, microsTitle, name, func(v float64) float64 { return v }})
	}
	return all
}

// curve is a line of the scale chart.
type curve struct {
	workload, engine int
	title, name      string // of the engine and of the workload
	points           []chart.Point
}

// curves returns the lines of the scale chart, by workload and then by engine, and the number of engines.
func (p *page) curves() (all []*curve, engines int) {
	var titles []string
	for workload, l := range scaleLines() {
		i := slices.IndexFunc(p.tables, func(t table) bool { return t.title == l.table })
		if i < 0 {
			continue
		}
		t, byEngine := &p.tables[i], map[int]*curve{}
		for row, cells := range t.rows {
			at := chart.Point{X: parsedCell(cells[0]), Y: l.micros(t.value(row, l.column))}
			if math.IsNaN(at.X) || math.IsNaN(at.Y) {
				continue
			}
			engine := slices.Index(titles, strings.TrimSuffix(cells[1], lossMark))
			if engine < 0 {
				engine = len(titles)
				titles = append(titles, strings.TrimSuffix(cells[1], lossMark))
			}
			if byEngine[engine] == nil {
				byEngine[engine] = &curve{workload: workload, engine: engine, title: cells[1], name: l.name}
				all = append(all, byEngine[engine])
			}
			byEngine[engine].points = append(byEngine[engine].points, at)
		}
	}
	return all, len(titles)
}

// scale draws the time per operation against the number of keys, with a colour for each
// workload and a kind of line for each engine. It returns nil if the page has no such tables.
func (p *page) scale() *chart.Chart {
	curves, engines := p.curves()
	if len(curves) == 0 {
		return nil
	}
	var sizes, values []float64
	for _, l := range curves {
		for _, at := range l.points {
			sizes, values = append(sizes, at.X), append(values, at.Y)
		}
	}
	for _, o := range p.otherFills() {
		sizes, values = append(sizes, o.X), append(values, o.Y)
	}
	c := chart.New("scale", "Time per operation, by the number of keys", "")
	c.Width, c.Height, c.Right = 880, 420, 150
	if engines > 1 { // longer names, and more of them
		c.Right, c.Height = 230, max(c.Height, 16*float64(len(curves))+60)
	}
	y := chart.LogAxis("µs per operation", values, digits)
	y.Fit(slices.Min(values)/1.5, slices.Max(values)*1.5)
	c.SetAxes(sizesAxis(sizes), y)
	var parts []string
	for _, l := range curves {
		series, last := chart.Series(l.workload+1), l.points[len(l.points)-1]
		c.Line(series, fmt.Sprintf("dash%d", l.engine), l.points)
		c.Marks(series, 3, l.points)
		name := l.name
		if engines > 1 {
			name = l.title + ", " + name
		}
		c.End(series, last.Y, name)
		parts = append(parts, fmt.Sprintf("%s: from %s to %s", name, short(l.points[0].Y), short(last.Y)))
	}
	if others := p.otherFills(); len(others) > 0 {
		c.Others(1, others) // the color of the fills
		for _, o := range others {
			parts = append(parts, fmt.Sprintf("%s, %s keys filled: %s", o.Name, count(o.X), short(o.Y)))
		}
	}
	c.Desc = fmt.Sprintf("Microseconds per operation with %s to %s keys. %s.",
		count(slices.Min(sizes)), count(slices.Max(sizes)), strings.Join(parts, "; "))
	return c
}

// otherFills returns the time per operation of other engines' fills.
func (p *page) otherFills() (points []chart.NamedPoint) {
	if p.others == nil {
		return nil
	}
	for row, cells := range p.others.rows {
		at := chart.NamedPoint{X: parsedCell(cells[0]), Y: 1e6 / p.others.value(row, settledOpsColumn), Name: cells[1]}
		if !math.IsNaN(at.X) && !math.IsNaN(at.Y) && at.Name != ourTitle {
			points = append(points, at)
		}
	}
	return points
}

func (p *page) othersRemark() []string {
	if len(p.otherFills()) == 0 {
		return nil
	}
	return []string{"Lines: SieveDB. Rings: the same fill, settled, by other engines, one round; † may lose unsynced writes when the process is killed."}
}

// digits formats a value of an axis without trailing zeros.
func digits(v float64) string { return strconv.FormatFloat(v, 'g', 6, 64) }

// sizesAxis has a tick at each number of keys.
func sizesAxis(sizes []float64) chart.Axis {
	slices.SortFunc(sizes, cmp.Compare[float64])
	sizes = slices.Compact(sizes)
	a := chart.Axis{Name: "keys", Log: true, Low: sizes[0] / 1.2, High: sizes[len(sizes)-1] * 1.2}
	for _, n := range sizes {
		a.Ticks = append(a.Ticks, chart.Tick{At: n, Text: bench.Grouped(uint64(n))})
	}
	return a
}
