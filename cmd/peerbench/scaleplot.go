package main

import (
	"cmp"
	"image/color"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"

	"github.com/sievedb/sievedb/cmd/internal/bench"
)

// drawnMeasures are the lines of the plot: what an operation takes by the clock.
func drawnMeasures() []measure {
	paid := func(r *result) *float64 {
		if r.SettledOpsPerSec == nil {
			return nil
		}
		v := 1e6 / *r.SettledOpsPerSec
		return &v
	}
	return append([]measure{of("fillrandom, debt paid", "fillrandom", paid, short)}, readMeasures(microsPerOp, short)...)
}

// writeScalePlot draws cost against keys, a colour for each workload and a kind
// of line for each engine, with its name at its end.
func (rep *report) writeScalePlot(name string) error {
	p := plot.New()
	p.Title.Text = "Microseconds for an operation, by the number of keys"
	titles := rep.titles(true)
	p.X.Label.Text = strings.TrimSpace(wrapped(rep.cfg.String()) + "\n" + wrapped(titles.note))
	p.X.Label.TextStyle.Font.Size = 8
	p.Y.Label.Text = "µs"
	var ends []lineEnd
	least, most := math.Inf(1), 0.0
	for i, m := range drawnMeasures() {
		for j, engine := range rep.cfg.Engines {
			var points plotter.XYs
			for _, keys := range rep.cfg.Scale {
				if v, ok := rep.atSize(keys, engine, m); ok {
					points = append(points, plotter.XY{X: float64(keys), Y: v})
					least, most = min(least, v), max(most, v)
				}
			}
			if len(points) == 0 {
				continue
			}
			line, dots, err := plotter.NewLinePoints(points)
			if err != nil {
				return err
			}
			line.Color, dots.Color = plotutil.Color(i), plotutil.Color(i)
			line.Dashes, dots.Shape = plotutil.Dashes(j), plotutil.Shape(j)
			p.Add(line, dots)
			label := m.name
			if len(rep.cfg.Engines) > 1 {
				label = titles.list[j] + ", " + label
			}
			ends = append(ends, lineEnd{label, points[len(points)-1], line.Color})
		}
	}
	fewest, largest := float64(slices.Min(rep.cfg.Scale)), float64(slices.Max(rep.cfg.Scale))
	p.X.Min, p.X.Max = edges(fewest, largest)
	p.X.Max *= math.Pow(p.X.Max/p.X.Min, 0.3) // for the names
	p.Y.Min, p.Y.Max = edges(least, most)
	p.X.Scale, p.Y.Scale = plot.LogScale{}, plot.LogScale{}
	p.X.Tick.Marker, p.Y.Tick.Marker = sizeTicks(rep.cfg.Scale), plot.LogTicks{Prec: -1}
	if len(ends) > 0 {
		names, err := nameEnds(ends, math.Log(p.Y.Max/p.Y.Min)/lineEndRows)
		if err != nil {
			return err
		}
		p.Add(names)
	}
	return p.Save(9*vg.Inch, 5.5*vg.Inch, name)
}

// lineEnd is where a line of a plot ends, and what it is called.
type lineEnd struct {
	name  string
	at    plotter.XY
	color color.Color
}

// lineEndRows is how many names fit above each other.
const lineEndRows = 27

// nameEnds writes names to the right of the ends, moved up where two would stand closer
// to each other than apart, which is a logarithm.
func nameEnds(ends []lineEnd, apart float64) (*plotter.Labels, error) {
	slices.SortStableFunc(ends, func(a, b lineEnd) int { return cmp.Compare(a.at.Y, b.at.Y) })
	var all plotter.XYLabels
	lowest := math.Inf(-1)
	for _, e := range ends {
		y := max(math.Log(e.at.Y), lowest)
		lowest = y + apart
		all.XYs = append(all.XYs, plotter.XY{X: e.at.X, Y: math.Exp(y)})
		all.Labels = append(all.Labels, e.name)
	}
	names, err := plotter.NewLabels(all)
	if err != nil {
		return nil, err
	}
	names.Offset.X = 6
	for i, e := range ends {
		names.TextStyle[i].Color = e.color
		names.TextStyle[i].Font.Size = 9
		names.TextStyle[i].YAlign = text.YCenter
	}
	return names, nil
}

// wrapped breaks a text into lines that fit above or below a plot.
func wrapped(text string) string {
	const most = 110
	var b strings.Builder
	line := 0
	for i, word := range strings.Fields(text) {
		switch {
		case i == 0:
		case line+1+len(word) > most:
			b.WriteByte('\n')
			line = 0
		default:
			b.WriteByte(' ')
			line++
		}
		b.WriteString(word)
		line += len(word)
	}
	return b.String()
}

func sizeTicks(sizes []int) (ticks plot.ConstantTicks) {
	for _, n := range sizes {
		ticks = append(ticks, plot.Tick{Value: float64(n), Label: bench.Grouped(uint64(n))})
	}
	return ticks
}

// edges leaves some room around what is drawn. A logarithmic axis wants both above
// 0, and apart.
func edges(least, most float64) (low, high float64) { return least / 1.5, most * 1.5 }
