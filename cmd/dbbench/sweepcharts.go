package main

import (
	"cmp"
	"fmt"
	"html/template"
	"math"
	"slices"
	"strings"

	"github.com/sievedb/sievedb/cmd/internal/bench"
	"github.com/sievedb/sievedb/cmd/internal/chart"
)

// figure is a chart with its heading and its caption.
type figure struct {
	Title, Caption string
	SVG            template.HTML
}

func newFigure(c *chart.Chart, caption string) figure {
	return figure{c.Title, caption, template.HTML(c.SVG())}
}

// measuredKinds returns the kinds of the sweep that make filters.
func (out *sweep) measuredKinds() (kinds []sweepKind) {
	for _, name := range out.Filters {
		if k, _ := findSweepKind(name); k.policy != nil {
			kinds = append(kinds, k)
		}
	}
	return kinds
}

// ratesOf returns the rates of a kind, by bits.
func (t *tableRates) ratesOf(kind string) (rates []filterRate) {
	for _, r := range t.Rates {
		if r.Kind == kind {
			rates = append(rates, r)
		}
	}
	return rates
}

// rateAxes returns axes that fit the rates of both charts, so that they can be compared.
func rateAxes(tables ...*tableRates) (x, y chart.Axis) {
	var bits, rates []float64
	for _, t := range tables {
		for _, r := range t.Rates {
			bits = append(bits, r.BitsPerKey)
			rates = append(rates, max(r.Rate, r.Low), r.High, r.Predicted)
		}
	}
	y = chart.LogAxis("absent keys that pass", rates, func(share float64) string { return fmt.Sprintf("%g %%", round(100*share, 3)) })
	y.High = min(y.High, 1)
	low, high := math.Floor(slices.Min(bits)), math.Ceil(slices.Max(bits))
	x = chart.Axis{Name: "filter bits per key", Low: low - 0.6, High: high + 0.6}
	step := 1.0
	for (high-low)/step > 9 {
		step *= 2
	}
	for v := low; v <= high; v += step {
		x.Ticks = append(x.Ticks, chart.Tick{At: v, Text: fmt.Sprintf("%.0f", v)})
	}
	return x, y
}

// round returns v rounded to this number of significant digits.
func round(v float64, digits int) float64 {
	if v == 0 {
		return 0
	}
	scale := math.Pow(10, float64(digits)-math.Ceil(math.Log10(math.Abs(v))))
	return math.Round(v*scale) / scale
}

// digits3 formats v with three significant digits and without an exponent.
func digits3(v float64) string {
	if v == 0 {
		return "0"
	}
	decimals := 2 - int(math.Floor(math.Log10(math.Abs(v))))
	return fmt.Sprintf("%.*f", min(max(decimals, 0), 6), v)
}

// rateText formats a rate as a percentage.
func rateText(rate float64) string {
	if rate == 0 {
		return "0 %"
	}
	decimals := 1 - int(math.Floor(math.Log10(100*rate)))
	return fmt.Sprintf("%.*f %%", min(max(decimals, 1), 4), 100*rate)
}

// rateFigures are the charts of rates against bits: the real keys in small tables, and the key shape with the
// most hash collisions in LevelDB's filter in one large table. Together they show when that filter is sound.
func (out *sweep) rateFigures() []figure {
	if len(out.measuredKinds()) == 0 {
		return nil
	}
	real, worst := out.Shapes[0], out.worstShape()
	x, y := rateAxes(&real.Small, &worst.Large)
	c := chart.New("rates-real", fmt.Sprintf("Absent %s that pass, in tables of %s keys", real.Shape,
		bench.Grouped(uint64(real.Small.TableKeys))), out.describeRates(&real.Small))
	out.ratesChart(c, x, y, &real.Small, 0)
	figures := []figure{newFigure(c, "Lower is better, and further left needs less memory. The marks are measured, with intervals that have the true rate "+
		"95 times in 100; the lines are what theory predicts. Marks on their line: the filter works as it should.")}
	c = chart.New("rates-worst", fmt.Sprintf("The same for keys of shape %s, in one table of %s", worst.Shape,
		bench.Grouped(uint64(worst.Large.TableKeys))), out.describeRates(&worst.Large))
	out.ratesChart(c, x, y, &worst.Large, worst.Large.SameHash)
	return append(figures, newFigure(c, "Marks far above their line show a filter that fails for such keys: they are absent, but have the 32-bit hash of a stored "+
		"key, and more bits cannot distinguish them. Of the generated shapes, this one has the most."))
}

// ratesChart draws the rates of each kind of filter in tables of one size, and the share of absent keys that no
// number of bits can exclude.
func (out *sweep) ratesChart(c *chart.Chart, x, y chart.Axis, t *tableRates, floor float64) {
	c.Left = 84 // for "0.001 %" next to the name of the axis, also in the larger texts on a phone
	c.SetAxes(x, y)
	if floor >= y.Low {
		bloom, _ := findSweepKind("bloom")
		c.Level(bloom.series, "floor", floor)
		c.Annotate(bloom.series, floor, rateText(floor)+" share a 32-bit hash")
	}
	for _, k := range out.measuredKinds() {
		var measured, predicted []chart.Point
		for _, r := range t.ratesOf(k.name) {
			measured = append(measured, chart.Point{X: r.BitsPerKey, Y: r.Rate, Low: r.Low, High: r.High})
			predicted = append(predicted, chart.Point{X: r.BitsPerKey, Y: r.Predicted})
		}
		c.Line(k.series, "predicted", predicted)
		c.Marks(k.series, 3, measured)
		last := measured[len(measured)-1]
		if k.fixed {
			c.Name(k.series, last, k.noun)
		} else {
			c.End(k.series, max(last.Y, last.Low), k.noun)
		}
	}
}

// worstShape returns the generated shape with the most equal hashes.
func (out *sweep) worstShape() *shapeRates {
	return slices.MaxFunc(out.Shapes[1:], func(a, b *shapeRates) int { return cmp.Compare(a.Large.SameHash, b.Large.SameHash) })
}

// describeRates is the text alternative of a chart of rates.
func (out *sweep) describeRates(t *tableRates) string {
	var parts []string
	for _, k := range out.measuredKinds() {
		rates := t.ratesOf(k.name)
		first, last := rates[0], rates[len(rates)-1]
		text := fmt.Sprintf("%s: %s at %.1f bits", k.noun, rateText(first.Rate), first.BitsPerKey)
		if len(rates) > 1 {
			text += fmt.Sprintf(", %s at %.1f bits", rateText(last.Rate), last.BitsPerKey)
		}
		parts = append(parts, text)
	}
	return "False-positive rate against bits per key. " + strings.Join(parts, "; ") + "."
}

// peerFigures compare the default with no filter and with the filters of other stores.
func (out *sweep) peerFigures() []figure {
	return []figure{
		out.levelFigure("peers-absent", "Disk reads per absent key, by level", func(r *storeRun) *passRun { return &r.Absent }),
		out.levelFigure("peers-stored", "Disk reads per stored key, by level", func(r *storeRun) *passRun { return &r.Present }),
	}
}

// levelFigure shows the disk reads of a lookup on each level, for each of the peers.
func (out *sweep) levelFigure(id, title string, pass func(*storeRun) *passRun) figure {
	const rowHeight = 16
	rows, group := len(out.Levels)+1, float64(len(out.Peers)*rowHeight)
	c := chart.New(id, title, "")
	c.Height = float64(rows)*(group+12) + c.Bottom + 16
	c.Right, c.Left = 178, 86
	var values []float64
	for _, r := range out.Peers {
		p := pass(r)
		for _, l := range p.Levels {
			values = append(values, float64(l.Reads)/float64(p.Gets))
		}
		values = append(values, p.readsPerGet())
	}
	x := chart.LogAxis("disk reads per lookup", values, func(v float64) string { return fmt.Sprintf("%g", round(v, 4)) })
	if len(x.Ticks) > 5 { // their texts would touch on a phone
		n := 0
		x.Ticks = slices.DeleteFunc(x.Ticks, func(chart.Tick) bool { n++; return n%2 == 0 })
	}
	c.SetAxes(x, chart.Axis{Low: 0, High: 1})
	c.Columns()
	var parts []string
	for row := range rows {
		y := c.Top + 4 + float64(row)*(group+12)
		name, value := "all levels", (*passRun).readsPerGet
		if row < len(out.Levels) {
			level := out.Levels[row].Level
			name, value = fmt.Sprintf("level %d", level), func(p *passRun) float64 { return p.readsOf(level) }
		}
		c.RowName(y+group/2, name)
		for i, r := range out.Peers {
			text := r.named() + " " + digits3(value(pass(r)))
			c.Dot(peerSeries[i], value(pass(r)), y+float64(i*rowHeight)+7, text)
			if row == rows-1 {
				parts = append(parts, text)
			}
		}
	}
	c.Desc = "Disk reads per lookup on all levels: " + strings.Join(parts, "; ") + "."
	return newFigure(c, out.peersCaption(pass))
}

// peersCaption says in a sentence what the chart of the peers shows, and how to read it.
func (out *sweep) peersCaption(pass func(*storeRun) *passRun) string {
	own, rest := out.Peers[len(out.Peers)-1], out.Peers[:len(out.Peers)-1]
	reads := pass(own).readsPerGet()
	var others []string
	for _, r := range rest {
		more := pass(r).readsPerGet() / reads
		switch {
		case more >= 1.05 && more < 1e6:
			others = append(others, fmt.Sprintf("%s %s times as many", r.named(), digits3(more)))
		case more > 0.95 && more < 1.05:
			others = append(others, r.named()+" about as many")
		case more <= 0.95:
			others = append(others, r.named()+" fewer")
		}
	}
	text := fmt.Sprintf("With %s, a lookup reads %s blocks", own.named(), digits3(reads))
	if reads > 0 && len(others) > 0 {
		text += "; with " + strings.Join(others, ", with ")
	}
	text += ". Further left is better, and equal steps to the right multiply the reads."
	if out.CacheBytes == 0 {
		text += " There is no block cache, so every access to a block is a read."
	}
	return text
}
