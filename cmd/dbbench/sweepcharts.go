package main

import (
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

// ratePoints returns the measured and the predicted rates of a kind.
func (t *tableRates) ratePoints(kind string) (measured, predicted []chart.Point) {
	for _, r := range t.Rates {
		if r.Kind == kind {
			measured = append(measured, chart.Point{X: r.BitsPerKey, Y: r.Rate, Low: r.Low, High: r.High})
			predicted = append(predicted, chart.Point{X: r.BitsPerKey, Y: r.Predicted})
		}
	}
	return measured, predicted
}

// rateAxes returns axes that fit the rates of all shapes, so that charts can be compared.
func (out *sweep) rateAxes() (x, y chart.Axis) {
	var bits, rates []float64
	for _, s := range out.Shapes {
		for _, t := range []*tableRates{&s.Small, &s.Large} {
			for _, r := range t.Rates {
				bits = append(bits, r.BitsPerKey)
				rates = append(rates, max(r.Rate, r.Low), r.High, r.Predicted)
			}
		}
	}
	y = chart.LogAxis("absent keys that pass", rates, percentTick)
	y.High = min(y.High, 1)
	return bitsAxis(bits), y
}

// bitsAxis is an axis for bits per key. It ends a little outside the values.
func bitsAxis(values []float64) chart.Axis {
	low, high := math.Floor(slices.Min(values)), math.Ceil(slices.Max(values))
	a := chart.Axis{Name: "filter bits per key", Low: low - 0.6, High: high + 0.6}
	step := 1.0
	for (high-low)/step > 9 {
		step *= 2
	}
	for v := low; v <= high; v += step {
		a.Ticks = append(a.Ticks, chart.Tick{At: v, Text: fmt.Sprintf("%.0f", v)})
	}
	return a
}

// percentTick formats a round share as a percentage.
func percentTick(share float64) string { return fmt.Sprintf("%g %%", round(100*share, 3)) }

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

// ratesChart draws the rates of one key shape in tables of one size. With floor, it shows the
// share of absent keys that no number of bits can exclude.
func (out *sweep) ratesChart(c *chart.Chart, t *tableRates, floor bool) {
	c.Left = 84 // for "0.001 %" next to the name of the axis, also in the larger texts on a phone
	x, y := out.rateAxes()
	c.SetAxes(x, y)
	if floor && t.SameHash >= y.Low {
		bloom, _ := findSweepKind("bloom")
		c.Level(bloom.series, "floor", t.SameHash)
		c.Note(bloom.series, t.SameHash, rateText(t.SameHash)+" share a 32-bit hash")
	}
	for _, k := range out.measuredKinds() {
		measured, predicted := t.ratePoints(k.name)
		if len(measured) == 0 {
			continue
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

// rateFigures are the two large charts: the real keys, and the key shape with the most hash
// collisions in LevelDB's filter.
func (out *sweep) rateFigures() []figure {
	real := out.Shapes[0]
	c := chart.New("rates-real", fmt.Sprintf("Absent %s that pass, in tables of %s keys",
		real.Shape, bench.Grouped(uint64(real.Small.TableKeys))),
		out.describeRates(&real.Small))
	out.ratesChart(c, &real.Small, false)
	figures := []figure{newFigure(c, "Lines: predicted by theory. Marks: measured, with 95 % confidence intervals.")}
	worst := out.worstShape()
	c = chart.New("rates-worst", fmt.Sprintf("The same for keys of shape %s, in one table of %s",
		worst.Shape, bench.Grouped(uint64(worst.Large.TableKeys))),
		out.describeRates(&worst.Large))
	out.ratesChart(c, &worst.Large, true)
	return append(figures, newFigure(c, "Of the generated shapes, this one has the most absent keys with the 32-bit hash of a stored key. "+
		"More bits cannot distinguish those keys."))
}

// worstShape returns the generated shape with the most equal hashes, or the real keys if there
// is no generated shape.
func (out *sweep) worstShape() *shapeRates {
	generated := out.Shapes[min(1, len(out.Shapes)-1):]
	return slices.MaxFunc(generated, func(a, b *shapeRates) int {
		if a.Large.SameHash < b.Large.SameHash {
			return -1
		} else if a.Large.SameHash > b.Large.SameHash {
			return 1
		}
		return 0
	})
}

// describeRates is the text alternative of a chart of rates.
func (out *sweep) describeRates(t *tableRates) string {
	var parts []string
	for _, k := range out.measuredKinds() {
		var rates []filterRate
		for _, r := range t.Rates {
			if r.Kind == k.name {
				rates = append(rates, r)
			}
		}
		if len(rates) == 0 {
			continue
		}
		first, last := rates[0], rates[len(rates)-1]
		text := fmt.Sprintf("%s: %s at %.1f bits", k.noun, rateText(first.Rate), first.BitsPerKey)
		if len(rates) > 1 {
			text += fmt.Sprintf(", %s at %.1f bits", rateText(last.Rate), last.BitsPerKey)
		}
		parts = append(parts, text)
	}
	return "False-positive rate against bits per key. " + strings.Join(parts, "; ") + "."
}

// shapeFigures are small charts on the same axes, one for each key shape.
func (out *sweep) shapeFigures() (figures []figure) {
	x, y := out.rateAxes()
	x.Name, y.Name = "", ""
	for i, s := range out.Shapes {
		c := chart.NewSmall(fmt.Sprintf("shape-%d", i), s.Shape, out.describeRates(&s.Large))
		c.Left = 52 // for "0.001 %"
		c.SetAxes(x, y)
		for _, k := range out.measuredKinds() {
			if k.name == "bloom" && s.Large.SameHash >= y.Low {
				c.Level(k.series, "floor", s.Large.SameHash)
			}
			measured, predicted := s.Large.ratePoints(k.name)
			if k.name == "bloom" {
				small, _ := s.Small.ratePoints(k.name)
				c.Hollow(k.series, 1.8, small)
			}
			c.Line(k.series, "predicted", predicted)
			c.Marks(k.series, 2, measured)
		}
		figures = append(figures, newFigure(c, "absent keys: "+s.Missing))
	}
	return figures
}

// series is a value of every store of one kind.
type series struct {
	kind  sweepKind
	value []chart.Point
}

// storeSeries reads a value from every store.
func (out *sweep) storeSeries(x func(*storeRun) float64, y func(*storeRun) chart.Point) (all []series) {
	for _, name := range out.Filters {
		k, _ := findSweepKind(name)
		s := series{kind: k}
		for _, r := range out.Stores {
			if r.Kind == name {
				p := y(r)
				p.X = x(r)
				s.value = append(s.value, p)
			}
		}
		if len(s.value) > 0 {
			all = append(all, s)
		}
	}
	return all
}

// storeChart draws series against bits or memory, and the store without filters as a
// horizontal line. Lines go through the points of expected, if there are any, and through
// those of the series otherwise.
func storeChart(c *chart.Chart, all, expected []series, x, y chart.Axis) {
	c.SetAxes(x, y)
	for _, s := range expected {
		if s.kind.policy != nil {
			c.Line(s.kind.series, "predicted", s.value)
		}
	}
	for _, s := range all {
		last := s.value[len(s.value)-1]
		switch {
		case s.kind.policy == nil:
			c.LevelBand(s.kind.series, last.Low, last.High)
			c.Level(s.kind.series, "dashed", last.Y)
			c.End(s.kind.series, last.Y, s.kind.noun)
		case s.kind.fixed:
			c.Marks(s.kind.series, 3.4, s.value)
			c.Name(s.kind.series, last, s.kind.noun)
		default:
			if expected == nil {
				c.Band(s.kind.series, s.value)
				c.Line(s.kind.series, "", s.value)
			}
			c.Marks(s.kind.series, 2.6, withoutIntervals(s.value))
			c.End(s.kind.series, last.Y, s.kind.noun)
		}
	}
}

// withoutIntervals returns the points alone, for lines whose band shows the intervals.
func withoutIntervals(points []chart.Point) []chart.Point {
	bare := slices.Clone(points)
	for i := range bare {
		bare[i].Low, bare[i].High = 0, 0
	}
	return bare
}

// seriesValues returns all x and y of the series, with the ends of the intervals. The store
// without filters has no x.
func seriesValues(all []series) (xs, ys []float64) {
	for _, s := range all {
		for _, p := range s.value {
			if s.kind.policy != nil {
				xs = append(xs, p.X)
			}
			ys = append(ys, p.Y)
			if p.High > p.Low {
				ys = append(ys, p.Low, p.High)
			}
		}
	}
	if len(xs) == 0 {
		xs = []float64{0}
	}
	return xs, ys
}

func bitsOf(r *storeRun) float64 { return r.BitsPerKey }

// absentReads returns the disk reads per absent key. If there were none it returns one read in
// all lookups, since a logarithmic axis has no 0.
func absentReads(r *storeRun) chart.Point { return readsPoint(r, r.Absent.readsPerGet()) }

func readsPoint(r *storeRun, reads float64) chart.Point {
	return chart.Point{Y: max(reads, 1/float64(max(r.Absent.Gets, 1)))}
}

func (out *sweep) readFigures() []figure {
	figures := []figure{
		out.levelFigure("levels-absent", "Disk reads per absent key, by level and kind of filter", out.referenceRuns(), absentPass),
		out.levelFigure("levels-stored", "Disk reads per stored key, by level and kind of filter", out.referenceRuns(), presentPass),
	}
	for i := range figures {
		figures[i].Caption = fmt.Sprintf("Bloom filters of %d bits per key. ", out.reference()) + figures[i].Caption
	}
	all := out.storeSeries(bitsOf, absentReads)
	xs, ys := seriesValues(all)
	c := chart.New("reads-bits", "Disk reads per absent key, against bits per key", describeSeries(all, "disk reads"))
	expected := out.storeSeries(bitsOf, func(r *storeRun) chart.Point {
		return readsPoint(r, r.Absent.Predicted/float64(max(r.Absent.Gets, 1)))
	})
	storeChart(c, all, expected, bitsAxis(xs), chart.LogAxis("disk reads per lookup", ys, digitsTick))
	figures = append(figures, newFigure(c, "All levels together. Lines: predicted by theory. Marks: counted at the file system."))
	kib := func(r *storeRun) float64 { return float64(r.FilterBytes) / (1 << 10) }
	all = out.storeSeries(kib, absentReads)
	xs, ys = seriesValues(all)
	c = chart.New("reads-memory", "Disk reads per absent key, against filter memory", describeSeries(all, "disk reads"))
	storeChart(c, all, nil, chart.LinearAxis("filter memory in KiB", xs, true, digitsTick), chart.LogAxis("disk reads per lookup", ys, digitsTick))
	return append(figures, newFigure(c, "The closer to the lower left, the more each byte of filter saves."))
}

func digitsTick(v float64) string { return fmt.Sprintf("%g", round(v, 4)) }

func describeSeries(all []series, unit string) string {
	var parts []string
	for _, s := range all {
		first, last := s.value[0], s.value[len(s.value)-1]
		text := fmt.Sprintf("%s: %s %s", s.kind.noun, digits3(first.Y), unit)
		if len(s.value) > 1 {
			text = fmt.Sprintf("%s: from %s to %s %s", s.kind.noun, digits3(first.Y), digits3(last.Y), unit)
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "; ") + "."
}

func absentPass(r *storeRun) *passRun { return &r.Absent }

func presentPass(r *storeRun) *passRun { return &r.Present }

// peerFigures compare the default with no filter and with the filters of other stores.
func (out *sweep) peerFigures() []figure {
	return []figure{
		out.levelFigure("peers-absent", "Disk reads per absent key, by level", out.Peers, absentPass),
		out.levelFigure("peers-stored", "Disk reads per stored key, by level", out.Peers, presentPass),
	}
}

// drawn returns the series and the name of a store in charts.
func (p sweepPoint) drawn() (chart.Series, string) {
	if k, ok := findSweepKind(p.Kind); ok {
		return k.series, k.noun
	}
	for i, l := range peerLayouts {
		if l.name == p.Kind {
			return peerSeries[1+i], l.noun
		}
	}
	return peerSeries[len(peerSeries)-1], p.named()
}

// levelFigure shows the disk reads of a lookup on each level, for each of the stores.
func (out *sweep) levelFigure(id, title string, runs []*storeRun, pass func(*storeRun) *passRun) figure {
	const rowHeight = 16
	rows := len(out.Levels) + 1
	c := chart.New(id, title, "")
	c.Height = float64(rows*(len(runs)*rowHeight+12)) + c.Bottom + 16
	var values []float64
	for _, r := range runs {
		p := pass(r)
		for _, l := range p.Levels {
			values = append(values, float64(l.Reads)/float64(p.Gets))
		}
		values = append(values, p.readsPerGet())
	}
	c.Right, c.Left = 178, 86
	x := chart.LogAxis("disk reads per lookup", values, digitsTick)
	if len(x.Ticks) > 5 { // their texts would touch on a phone
		n := 0
		x.Ticks = slices.DeleteFunc(x.Ticks, func(chart.Tick) bool { n++; return n%2 == 0 })
	}
	c.SetAxes(x, chart.Axis{Low: 0, High: 1})
	var parts []string
	y := c.Top + 4
	for row := range rows {
		name := "all levels"
		if row < len(out.Levels) {
			name = fmt.Sprintf("level %d", out.Levels[row].Level)
		}
		c.RowName(y+float64(len(runs)*rowHeight)/2, name)
		for i, r := range runs {
			p := pass(r)
			value := p.readsPerGet()
			if row < len(out.Levels) {
				value = p.readsOf(out.Levels[row].Level)
			}
			series, noun := r.drawn()
			c.Lollipop(series, value, y+float64(i*rowHeight)+7, noun+" "+digits3(value))
			if row == rows-1 {
				parts = append(parts, fmt.Sprintf("%s: %s", noun, digits3(value)))
			}
		}
		y += float64(len(runs)*rowHeight) + 12
	}
	c.Desc = "Disk reads per lookup on all levels. " + strings.Join(parts, "; ") + "."
	caption := "The axis is logarithmic."
	if out.CacheBytes == 0 {
		caption += " There is no block cache, so every access to a block is a read."
	}
	return newFigure(c, caption)
}

func (out *sweep) timeFigures() []figure {
	var figures []figure
	for _, f := range []struct {
		id, title string
		pass      func(*storeRun) *passRun
	}{
		{"time-absent", "Time per lookup, absent keys", absentPass},
		{"time-stored", "Time per lookup, stored keys", presentPass},
	} {
		all := out.storeSeries(bitsOf, func(r *storeRun) chart.Point {
			p := f.pass(r)
			return chart.Point{Y: p.P10, Low: p.Low, High: p.High}
		})
		xs, ys := seriesValues(all)
		c := chart.New(f.id, f.title, describeSeries(all, "µs"))
		storeChart(c, all, nil, bitsAxis(xs), timeAxis(ys))
		figures = append(figures, newFigure(c, out.spreadCaption()+
			" The operating system's cache serves these reads; reads from a device take far longer."))
	}
	return figures
}

// spreadCaption explains marks and bands.
func (out *sweep) spreadCaption() string {
	if out.Repeat == 1 {
		return "One measurement of each time, so the spread is unknown."
	}
	return fmt.Sprintf("Marks: the median of %d repetitions. Bands: from the least to the greatest.", out.Repeat)
}

// timeAxis is logarithmic if the times differ by a factor of 8 or more.
func timeAxis(micros []float64) chart.Axis {
	const name = "µs per lookup"
	if slices.Max(micros) < 8*slices.Min(micros) {
		return chart.LinearAxis(name, micros, true, digitsTick)
	}
	return chart.LogAxis(name, micros, digitsTick)
}

func (out *sweep) memoryFigures() []figure {
	withFilters := slices.DeleteFunc(slices.Clone(out.Filters), func(name string) bool { return name == "none" })
	filtered := &sweep{Filters: withFilters, Stores: out.Stores, Repeat: out.Repeat}
	all := filtered.storeSeries(func(r *storeRun) float64 { return float64(requestedBits(r)) },
		func(r *storeRun) chart.Point { return chart.Point{Y: float64(r.FilterBytes) / (1 << 10)} })
	xs, ys := seriesValues(all)
	c := chart.New("memory-bits", "Memory for filters, against bits per key", describeSeries(all, "KiB"))
	c.Rising = true
	storeChart(c, all, nil, bitsAxis(xs), chart.LinearAxis("KiB", ys, true, digitsTick))
	figures := []figure{newFigure(c, fmt.Sprintf("Of all tables of the store, %s keys.", bench.Grouped(uint64(out.Shapes[0].Stored))))}
	all = filtered.storeSeries(bitsOf, func(r *storeRun) chart.Point {
		return chart.Point{Y: r.MakeNanosPerKey, Low: r.MakeNanosLow, High: r.MakeNanosHigh}
	})
	xs, ys = seriesValues(all)
	c = chart.New("making-bits", "Time to build a filter, against bits per key", describeSeries(all, "ns per key"))
	storeChart(c, all, nil, bitsAxis(xs), chart.LinearAxis("ns per key", ys, true, digitsTick))
	return append(figures, newFigure(c, fmt.Sprintf("Filters of %s keys, hashing included. "+
		"Every flush and compaction pays it. ", bench.Grouped(sweepTableKeys))+out.spreadCaption()))
}

// requestedBits returns the bits per key that were requested, or those that a kind without a choice uses.
func requestedBits(r *storeRun) float64 {
	if r.Bits > 0 {
		return float64(r.Bits)
	}
	return r.BitsPerKey
}
