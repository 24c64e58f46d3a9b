package main

import (
	"fmt"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
)

// writePlot draws a group of bars for each workload, an engine's bar being its
// median rate as a share of the best one.
func (rep *report) writePlot(name string) error {
	const (
		barWidth = vg.Length(6)
		height   = 4 * vg.Inch
	)
	p := plot.New()
	p.Title.Text = fmt.Sprintf("ops/s as a share of the best engine's, %s", rep.cfg)
	p.Title.TextStyle.Font.Size = 9
	p.Y.Min, p.Y.Max = 0, 1
	p.Legend.Top = true
	engines := rep.cfg.Engines
	titles := rep.titles(rep.unsynced())
	p.X.Label.Text = wrapped(titles.note)
	p.X.Label.TextStyle.Font.Size = 9
	for i, engine := range engines {
		shares := make(plotter.Values, len(rep.rows))
		for j, r := range rep.rows {
			if s, ok := r.of(engine, opsPerSec); ok {
				shares[j] = s.median / r.best(anyEngine)
			}
		}
		bars, err := plotter.NewBarChart(shares, barWidth)
		if err != nil {
			return err
		}
		bars.LineStyle.Width = 0
		bars.Color = plotutil.Color(i)
		bars.Offset = barWidth * (vg.Length(i) - vg.Length(len(engines)-1)/2)
		p.Add(bars)
		p.Legend.Add(titles.list[i], bars)
	}
	var names []string
	for _, r := range rep.rows {
		names = append(names, r.title())
	}
	p.NominalX(names...)
	p.X.Tick.Label.Rotation = 0.6
	p.X.Tick.Label.XAlign, p.X.Tick.Label.YAlign = -1, -0.5
	// The legend stands to the right of the bars.
	p.X.Max = float64(len(rep.rows)) + 1
	group := barWidth * vg.Length(len(engines)+3)
	return p.Save(group*vg.Length(len(rep.rows)+3)+vg.Inch, height, name)
}
