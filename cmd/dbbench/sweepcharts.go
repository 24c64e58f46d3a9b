package main

import (
	"fmt"
	"html/template"
	"math"
	"slices"
	"strings"

	"github.com/sievedb/sievedb/cmd/internal/bench"
)

// figure is a chart with what stands above and below it.
type figure struct {
	Title, Caption string
	SVG            template.HTML
}

func (c *chart) figure(caption string) figure { return figure{c.title, caption, c.svg()} }

// measuredKinds are the kinds of the sweep that make filters.
func (out *sweep) measuredKinds() (kinds []sweepKind) {
	for _, name := range out.Filters {
		if k, _ := findSweepKind(name); k.policy != nil {
			kinds = append(kinds, k)
		}
	}
	return kinds
}

// ratePoints returns what was measured of a kind, and what was predicted.
func (t *tableRates) ratePoints(kind string) (measured, predicted []point) {
	for _, r := range t.Rates {
		if r.Kind == kind {
			measured = append(measured, point{r.BitsPerKey, r.Rate, r.Low, r.High})
			predicted = append(predicted, point{x: r.BitsPerKey, y: r.Predicted})
		}
	}
	return measured, predicted
}

// span returns the axes that fit the rates of all shapes, so that charts can be compared.
func (out *sweep) rateAxes() (x, y axis) {
	var bits, rates []float64
	for _, s := range out.Shapes {
		for _, t := range []*tableRates{&s.Small, &s.Large} {
			for _, r := range t.Rates {
				bits = append(bits, r.BitsPerKey)
				rates = append(rates, max(r.Rate, r.Low), r.High, r.Predicted)
			}
		}
	}
	y = logAxis("absent keys that pass", rates, percentTick)
	y.top = min(y.top, 1)
	return bitsAxis(bits), y
}

// percentTick writes a round share.
func percentTick(share float64) string { return fmt.Sprintf("%g %%", round(100*share, 3)) }

// round keeps so many digits.
func round(v float64, digits int) float64 {
	if v == 0 {
		return 0
	}
	scale := math.Pow(10, float64(digits)-math.Ceil(math.Log10(math.Abs(v))))
	return math.Round(v*scale) / scale
}

// digits3 writes three digits of v that count, without an exponent.
func digits3(v float64) string {
	if v == 0 {
		return "0"
	}
	decimals := 2 - int(math.Floor(math.Log10(math.Abs(v))))
	return fmt.Sprintf("%.*f", min(max(decimals, 0), 6), v)
}

// rateText writes a rate in percent.
func rateText(rate float64) string {
	if rate == 0 {
		return "0 %"
	}
	decimals := 1 - int(math.Floor(math.Log10(100*rate)))
	return fmt.Sprintf("%.*f %%", min(max(decimals, 1), 4), 100*rate)
}

// ratesChart draws one shape's rates in tables of one size.
func (out *sweep) ratesChart(c *chart, t *tableRates, floor bool) {
	x, y := out.rateAxes()
	c.setAxes(x, y)
	if floor && t.SameHash >= c.y.low {
		c.level("floor k-bloom", t.SameHash)
		c.text(c.x.to-4, c.y.at(t.SameHash)+lineHeight+2, "note end", rateText(t.SameHash)+" share a 32-bit hash")
	}
	for _, k := range out.measuredKinds() {
		measured, predicted := t.ratePoints(k.name)
		if len(measured) == 0 {
			continue
		}
		c.line("predicted k-"+k.name, predicted)
		c.marks(k.name, 3, measured)
		last := measured[len(measured)-1]
		if k.fixed {
			c.name(k, last)
		} else {
			c.end(k.name, max(last.y, last.low), k.noun)
		}
	}
}

// name writes a kind's name beside its only point: below it, where the other kinds' lines
// are not, or to the right where they rise; above it at the bottom of the plot, and among
// the names at the right end where the point is near to it.
func (c *chart) name(k sweepKind, p point) {
	const half, below, above = 45, 20, 11 // about half of a name's width, and how far off it stands
	x, y := c.x.at(p.x), c.y.at(p.y)
	switch {
	case x+half > c.x.to:
		c.end(k.name, p.y, k.noun)
	case y+below > c.y.from-4:
		c.text(x, y-above, "label middle k-"+k.name, k.noun)
	case c.rising:
		c.text(x+7, y+below-2, "label k-"+k.name, k.noun)
	default:
		c.text(x, y+below, "label middle k-"+k.name, k.noun)
	}
}

// rateFigures are the two large charts: the real keys, and the shape that hits LevelDB's
// hash worst.
func (out *sweep) rateFigures() []figure {
	real := out.Shapes[0]
	c := newChart("rates-real", fmt.Sprintf("Absent %s that pass, in tables of %s keys", real.Shape, bench.Grouped(uint64(real.Small.TableKeys))),
		out.describeRates(&real.Small))
	out.ratesChart(c, &real.Small, false)
	figures := []figure{c.figure("Lines: what the mathematics predicts. Marks: measured, with the interval that holds the true rate 95 times in 100.")}
	worst := out.worstShape()
	c = newChart("rates-worst", fmt.Sprintf("The same for keys %s, in one table of %s", worst.Shape, bench.Grouped(uint64(worst.Large.TableKeys))),
		out.describeRates(&worst.Large))
	out.ratesChart(c, &worst.Large, true)
	return append(figures, c.figure("Of the made shapes this one has the most absent keys whose 32-bit hash is that of a stored key. More bits do not tell those apart."))
}

// worstShape returns the made shape with the most equal hashes, or the real keys if there
// were none else.
func (out *sweep) worstShape() *shapeRates {
	made := out.Shapes[min(1, len(out.Shapes)-1):]
	return slices.MaxFunc(made, func(a, b *shapeRates) int {
		if a.Large.SameHash < b.Large.SameHash {
			return -1
		} else if a.Large.SameHash > b.Large.SameHash {
			return 1
		}
		return 0
	})
}

// describeRates says in words what a chart of rates shows.
func (out *sweep) describeRates(t *tableRates) string {
	var parts []string
	for _, k := range out.measuredKinds() {
		var of []filterRate
		for _, r := range t.Rates {
			if r.Kind == k.name {
				of = append(of, r)
			}
		}
		if len(of) == 0 {
			continue
		}
		first, last := of[0], of[len(of)-1]
		text := fmt.Sprintf("%s: %s at %.1f bits", k.noun, rateText(first.Rate), first.BitsPerKey)
		if len(of) > 1 {
			text += fmt.Sprintf(", %s at %.1f bits", rateText(last.Rate), last.BitsPerKey)
		}
		parts = append(parts, text)
	}
	return "False-positive rate against bits a key. " + strings.Join(parts, "; ") + "."
}

// shapeFigures are small charts, one for each shape, on the same axes.
func (out *sweep) shapeFigures() (figures []figure) {
	x, y := out.rateAxes()
	x.name, y.name = "", ""
	for i, s := range out.Shapes {
		c := newSmallChart(fmt.Sprintf("shape-%d", i), s.Shape, out.describeRates(&s.Large))
		c.setAxes(x, y)
		if s.Large.SameHash >= y.low {
			c.level("floor k-bloom", s.Large.SameHash)
		}
		for _, k := range out.measuredKinds() {
			measured, predicted := s.Large.ratePoints(k.name)
			if k.name == "bloom" {
				small, _ := s.Small.ratePoints(k.name)
				c.marks(k.name+" hollow", 1.8, small)
			}
			c.line("predicted k-"+k.name, predicted)
			c.marks(k.name, 2, measured)
		}
		figures = append(figures, c.figure("asked for "+s.Missing))
	}
	return figures
}

// series is what the stores of one kind came to.
type series struct {
	kind  sweepKind
	value []point
}

// storeSeries reads a value off every store.
func (out *sweep) storeSeries(x func(*storeRun) float64, y func(*storeRun) point) (all []series) {
	for _, name := range out.Filters {
		k, _ := findSweepKind(name)
		s := series{kind: k}
		for _, r := range out.Stores {
			if r.Kind == name {
				p := y(r)
				p.x = x(r)
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
// line across. Lines go through the points of expected, if there are any, and through
// those of the series otherwise.
func storeChart(c *chart, all, expected []series, x, y axis) {
	c.setAxes(x, y)
	for _, s := range expected {
		if s.kind.policy != nil {
			c.line("predicted k-"+s.kind.name, s.value)
		}
	}
	for _, s := range all {
		last := s.value[len(s.value)-1]
		switch {
		case s.kind.policy == nil:
			c.level("none k-none", last.y)
			c.end(s.kind.name, last.y, s.kind.noun)
		case s.kind.fixed:
			c.marks(s.kind.name, 3.4, s.value)
			c.name(s.kind, last)
		default:
			if expected == nil {
				c.line("joined k-"+s.kind.name, s.value)
			}
			c.marks(s.kind.name, 2.6, s.value)
			c.end(s.kind.name, last.y, s.kind.noun)
		}
	}
}

// values returns all x or y of the series, with the ends of the intervals; those of the
// store without filters have no x.
func seriesValues(all []series) (xs, ys []float64) {
	for _, s := range all {
		for _, p := range s.value {
			if s.kind.policy != nil {
				xs = append(xs, p.x)
			}
			ys = append(ys, p.y)
			if p.high > p.low {
				ys = append(ys, p.low, p.high)
			}
		}
	}
	if len(xs) == 0 {
		xs = []float64{0}
	}
	return xs, ys
}

func bitsOf(r *storeRun) float64 { return r.BitsPerKey }

// vainReads is what absent keys read from disk, with the least that could have been told
// apart from nothing where they read nothing.
func vainReads(r *storeRun) point {
	return point{y: max(r.Absent.readsPerGet(), 1/float64(max(r.Absent.Gets, 1)))}
}

func (out *sweep) readFigures() []figure {
	figures := []figure{
		out.levelFigure("levels-absent", "Disk reads for an absent key, by level", func(r *storeRun) *passRun { return &r.Absent }),
		out.levelFigure("levels-stored", "Disk reads for a stored key, by level", func(r *storeRun) *passRun { return &r.Present }),
	}
	all := out.storeSeries(bitsOf, vainReads)
	xs, ys := seriesValues(all)
	c := newChart("reads-bits", "Disk reads for an absent key, against bits a key", describeSeries(all, "disk reads"))
	expected := out.storeSeries(bitsOf, func(r *storeRun) point {
		return point{y: max(r.Absent.Predicted/float64(max(r.Absent.Gets, 1)), 1/float64(max(r.Absent.Gets, 1)))}
	})
	storeChart(c, all, expected, bitsAxis(xs), logAxis("disk reads a lookup", ys, digitsTick))
	figures = append(figures, c.figure("All levels together. Lines: what the mathematics of the filters predicts. Marks: counted where reads leave the store."))
	kib := func(r *storeRun) float64 { return float64(r.FilterBytes) / (1 << 10) }
	all = out.storeSeries(kib, vainReads)
	xs, ys = seriesValues(all)
	c = newChart("reads-memory", "Disk reads for an absent key, against filter memory", describeSeries(all, "disk reads"))
	storeChart(c, all, nil, linearAxis("KiB of filters in memory", xs, true, digitsTick), logAxis("disk reads a lookup", ys, digitsTick))
	return append(figures, c.figure("The farther to the lower left, the more a byte of filter buys."))
}

func digitsTick(v float64) string { return fmt.Sprintf("%g", round(v, 4)) }

func describeSeries(all []series, unit string) string {
	var parts []string
	for _, s := range all {
		first, last := s.value[0], s.value[len(s.value)-1]
		text := fmt.Sprintf("%s: %s %s", s.kind.noun, digits3(first.y), unit)
		if len(s.value) > 1 {
			text = fmt.Sprintf("%s: from %s to %s %s", s.kind.noun, digits3(first.y), digits3(last.y), unit)
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "; ") + "."
}

// levelFigure shows what each level costs a lookup, with each kind at the reference bits.
func (out *sweep) levelFigure(id, title string, pass func(*storeRun) *passRun) figure {
	runs := out.referenceRuns()
	rows := len(out.Levels) + 1
	c := newChart(id, title, "")
	c.height = float64(rows*(len(runs)*lineHeight+12)) + c.bottom + 16
	var values []float64
	for _, r := range runs {
		p := pass(r)
		for _, l := range p.Levels {
			values = append(values, float64(l.Reads)/float64(p.Gets))
		}
		values = append(values, p.readsPerGet())
	}
	x := logAxis("disk reads a lookup", values, digitsTick)
	c.right, c.left = 178, 78
	c.setAxes(x, axis{low: 0, top: 1})
	var parts []string
	y := c.top + 4
	for row := range rows {
		name := "all levels"
		if row < len(out.Levels) {
			name = fmt.Sprintf("level %d", out.Levels[row].Level)
		}
		c.text(c.left-8, y+float64(len(runs)*lineHeight)/2+4, "rowname end", name)
		for i, r := range runs {
			p := pass(r)
			value := p.readsPerGet()
			if row < len(out.Levels) {
				value = p.readsOf(out.Levels[row].Level)
			}
			c.lollipop(r.Kind, value, y+float64(i*lineHeight)+7)
			if row == rows-1 {
				k, _ := findSweepKind(r.Kind)
				parts = append(parts, fmt.Sprintf("%s: %s", k.noun, digits3(value)))
			}
		}
		y += float64(len(runs)*lineHeight) + 12
	}
	c.desc = "Disk reads a lookup on all levels. " + strings.Join(parts, "; ") + "."
	caption := fmt.Sprintf("Bloom filters of %d bits a key. The axis is logarithmic.", out.reference())
	if out.CacheBytes == 0 {
		caption += " Without a block cache each block that is asked for is read."
	}
	return c.figure(caption)
}

// lollipop draws a value in a row with its kind's name beside it.
func (c *chart) lollipop(kind string, value, y float64) {
	k, _ := findSweepKind(kind)
	x, text := c.x.at(value), k.noun+" "+digits3(value)
	if value == 0 {
		x = c.x.from
	}
	fmt.Fprintf(&c.body, `<line class="stem k-%s" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/>`, kind, c.x.from, x, y, y)
	c.mark(kind, x, y, 3.2)
	c.text(x+9, y+4, "label k-"+kind, text)
}

func (out *sweep) timeFigures() []figure {
	var figures []figure
	for _, f := range []struct {
		id, title string
		pass      func(*storeRun) *passRun
	}{
		{"time-absent", "Time of a lookup, absent keys", func(r *storeRun) *passRun { return &r.Absent }},
		{"time-stored", "Time of a lookup, stored keys", func(r *storeRun) *passRun { return &r.Present }},
	} {
		all := out.storeSeries(bitsOf, func(r *storeRun) point { return point{y: f.pass(r).P10} })
		xs, ys := seriesValues(all)
		c := newChart(f.id, f.title, describeSeries(all, "µs"))
		storeChart(c, all, nil, bitsAxis(xs), timeAxis(ys))
		figures = append(figures, c.figure(fmt.Sprintf("The tenth percentile of slices of %d lookups. The operating system's cache answers the reads; a device that has to be asked takes far longer.", sliceLookups)))
	}
	return figures
}

// timeAxis is logarithmic where times differ by much.
func timeAxis(micros []float64) axis {
	const name = "µs a lookup"
	if slices.Max(micros) < 8*slices.Min(micros) {
		return linearAxis(name, micros, true, digitsTick)
	}
	return logAxis(name, micros, digitsTick)
}

func (out *sweep) memoryFigures() []figure {
	filtered := &sweep{Filters: slices.DeleteFunc(slices.Clone(out.Filters), func(name string) bool { return name == "none" }), Stores: out.Stores}
	all := filtered.storeSeries(func(r *storeRun) float64 { return float64(askedBits(r)) }, func(r *storeRun) point { return point{y: float64(r.FilterBytes) / (1 << 10)} })
	xs, ys := seriesValues(all)
	c := newChart("memory-bits", "Memory for filters, against bits a key", describeSeries(all, "KiB"))
	c.rising = true
	storeChart(c, all, nil, bitsAxis(xs), linearAxis("KiB", ys, true, digitsTick))
	figures := []figure{c.figure(fmt.Sprintf("Of all tables of the store, %s keys.", bench.Grouped(uint64(out.Shapes[0].Stored))))}
	all = filtered.storeSeries(bitsOf, func(r *storeRun) point { return point{y: r.MakeNanosPerKey} })
	xs, ys = seriesValues(all)
	c = newChart("making-bits", "Time to make a filter, against bits a key", describeSeries(all, "ns a key"))
	storeChart(c, all, nil, bitsAxis(xs), linearAxis("ns a key", ys, true, digitsTick))
	return append(figures, c.figure(fmt.Sprintf("Filters of %s keys, hashing included; the best of several runs. Paid at each flush and compaction.", bench.Grouped(sweepTableKeys))))
}

// askedBits is what was asked for, or what a kind takes by itself.
func askedBits(r *storeRun) float64 {
	if r.Bits > 0 {
		return float64(r.Bits)
	}
	return r.BitsPerKey
}
