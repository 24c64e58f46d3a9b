package main

import (
	"cmp"
	"fmt"
	"html"
	"html/template"
	"math"
	"slices"
	"strings"
)

// chart is one plot, drawn as SVG that stands in the page itself: its colours are the
// page's, so that it follows light and dark, and its text is text. Lengths are in the
// units of its view box, which are pixels where the page has room for it.
type chart struct {
	id, title, desc          string
	width, height            float64
	left, right, top, bottom float64 // margins
	x, y                     axis
	body                     strings.Builder
	ends                     []endLabel
	rising                   bool // its lines rise from left to right
}

// axis maps values to lengths.
type axis struct {
	name     string
	low, top float64 // values at its ends
	log      bool
	ticks    []tick
	from, to float64 // lengths at its ends
}

type tick struct {
	at   float64
	text string
}

// endLabel names a line at its right end.
type endLabel struct {
	y           float64
	class, text string
}

// point is a measured value, and its interval if High is above Low.
type point struct{ x, y, low, high float64 }

// The sizes of charts. Small ones stand in rows of three or four.
const (
	chartWidth, chartHeight = 500, 330
	smallWidth, smallHeight = 250, 200
	lineHeight              = 14
)

func newChart(id, title, desc string) *chart {
	return &chart{id: id, title: title, desc: desc, width: chartWidth, height: chartHeight, left: 66, right: 136, top: 14, bottom: 46}
}

func newSmallChart(id, title, desc string) *chart {
	return &chart{id: id, title: title, desc: desc, width: smallWidth, height: smallHeight, left: 44, right: 10, top: 8, bottom: 24}
}

// at returns the length at which a value lies; what is outside lies at the end.
func (a *axis) at(v float64) float64 {
	low, top := a.low, a.top
	v = min(max(v, low), top)
	if a.log {
		low, top, v = math.Log(low), math.Log(top), math.Log(v)
	}
	return a.from + (v-low)/(top-low)*(a.to-a.from)
}

// logAxis spans whole decades, or 1-2-5 steps where there are few, around the values.
func logAxis(name string, values []float64, text func(float64) string) axis {
	low, high := math.Inf(1), 0.0
	for _, v := range values {
		if v > 0 {
			low, high = min(low, v), max(high, v)
		}
	}
	if high == 0 {
		low, high = 0.1, 1
	}
	steps := []float64{1}
	if high/low < 150 {
		steps = []float64{1, 2, 5}
	}
	var marks []float64
	for e := math.Floor(math.Log10(low)); e <= math.Ceil(math.Log10(high)); e++ {
		for _, s := range steps {
			marks = append(marks, s*math.Pow(10, e))
		}
	}
	for len(marks) > 2 && marks[1] <= low {
		marks = marks[1:]
	}
	for len(marks) > 2 && marks[len(marks)-2] >= high {
		marks = marks[:len(marks)-1]
	}
	a := axis{name: name, log: true, low: marks[0], top: marks[len(marks)-1]}
	for _, m := range marks {
		a.ticks = append(a.ticks, tick{m, text(m)})
	}
	return a
}

// linearAxis spans from 0, or from the least value where fromZero is false, in steps that
// people count in.
func linearAxis(name string, values []float64, fromZero bool, text func(float64) string) axis {
	low, high := slices.Min(values), slices.Max(values)
	if fromZero {
		low = 0
	}
	if high <= low {
		low, high = low-1, high+1
	}
	step := math.Pow(10, math.Floor(math.Log10(high-low)))
	for _, s := range []float64{0.1, 0.2, 0.25, 0.5, 1, 2, 5} {
		if (high-low)/(step*s) <= 6 {
			step *= s
			break
		}
	}
	a := axis{name: name, low: math.Floor(low/step) * step, top: math.Ceil(high/step) * step}
	for i := 0; ; i++ {
		v := a.low + float64(i)*step
		if v > a.top+step/2 {
			return a
		}
		a.ticks = append(a.ticks, tick{v, text(v)})
	}
}

// bitsAxis is for bits a key: it ends where the values do, a little outside.
func bitsAxis(values []float64) axis {
	low, high := math.Floor(slices.Min(values)), math.Ceil(slices.Max(values))
	a := axis{name: "bits of filter for each key", low: low - 0.6, top: high + 0.6}
	step := 1.0
	for (high-low)/step > 9 {
		step *= 2
	}
	for v := low; v <= high; v += step {
		a.ticks = append(a.ticks, tick{v, fmt.Sprintf("%.0f", v)})
	}
	return a
}

// setAxes lays the plot out and draws the grid.
func (c *chart) setAxes(x, y axis) {
	x.from, x.to = c.left, c.width-c.right
	y.from, y.to = c.height-c.bottom, c.top
	c.x, c.y = x, y
	for _, t := range y.ticks {
		at := y.at(t.at)
		fmt.Fprintf(&c.body, `<line class="grid" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/>`, x.from, x.to, at, at)
		c.text(x.from-6, at+4, "tick end", t.text)
	}
	for _, t := range x.ticks {
		at := x.at(t.at)
		fmt.Fprintf(&c.body, `<line class="tickmark" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/>`, at, at, y.from, y.from+4)
		c.text(at, y.from+17, "tick middle", t.text)
	}
	fmt.Fprintf(&c.body, `<line class="axis" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/>`, x.from, x.to, y.from, y.from)
	if x.name != "" {
		c.text((x.from+x.to)/2, y.from+37, "axisname middle", x.name)
	}
	if y.name != "" {
		fmt.Fprintf(&c.body, `<text class="axisname middle" transform="translate(13 %.1f) rotate(-90)">%s</text>`, (y.from+y.to)/2, html.EscapeString(y.name))
	}
}

func (c *chart) text(x, y float64, class, text string) {
	fmt.Fprintf(&c.body, `<text class="%s" x="%.1f" y="%.1f">%s</text>`, class, x, y, html.EscapeString(text))
}

// line joins points; class says whose it is and how it looks.
func (c *chart) line(class string, points []point) {
	if len(points) < 2 {
		return
	}
	c.body.WriteString(`<polyline class="line ` + class + `" points="`)
	for _, p := range points {
		fmt.Fprintf(&c.body, "%.1f,%.1f ", c.x.at(p.x), c.y.at(p.y))
	}
	c.body.WriteString(`"/>`)
}

// level draws a line across at a value.
func (c *chart) level(class string, y float64) {
	fmt.Fprintf(&c.body, `<line class="line %s" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/>`, class, c.x.from, c.x.to, c.y.at(y), c.y.at(y))
}

// marks draws measured values with their intervals.
func (c *chart) marks(kind string, size float64, points []point) {
	for _, p := range points {
		x := c.x.at(p.x)
		if p.high > p.low {
			fmt.Fprintf(&c.body, `<line class="interval k-%s" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/>`, kind, x, x, c.y.at(p.low), c.y.at(p.high))
		}
		c.mark(kind, x, c.y.at(p.y), size)
	}
}

// mark draws one: each kind has a form of its own, for who sees no colours.
func (c *chart) mark(kind string, x, y, size float64) {
	class := `class="mark k-` + kind + `"`
	switch strings.Fields(kind)[0] {
	case "cacheline":
		fmt.Fprintf(&c.body, `<rect %s x="%.1f" y="%.1f" width="%.1f" height="%.1f"/>`, class, x-size, y-size, 2*size, 2*size)
	case "fuse":
		s := 1.6 * size
		fmt.Fprintf(&c.body, `<path %s d="M%.1f %.1fl%.1f %.1fl%.1f %.1fl%.1f %.1fz"/>`, class, x, y-s, s, s, -s, s, -s, -s)
	case "none":
		s := 1.3 * size
		fmt.Fprintf(&c.body, `<path %s d="M%.1f %.1fl%.1f %.1fh%.1fz"/>`, class, x, y-s, s, 2*s, -2*s)
	default:
		fmt.Fprintf(&c.body, `<circle %s cx="%.1f" cy="%.1f" r="%.1f"/>`, class, x, y, 1.1*size)
	}
}

// end has a line's name stand at the right of the plot, as near to y as the others let it.
func (c *chart) end(kind string, y float64, text string) {
	c.ends = append(c.ends, endLabel{c.y.at(y), "label k-" + kind, text})
}

func (c *chart) drawEnds() {
	slices.SortStableFunc(c.ends, func(a, b endLabel) int { return cmp.Compare(a.y, b.y) })
	for i := range c.ends {
		if i > 0 {
			c.ends[i].y = max(c.ends[i].y, c.ends[i-1].y+lineHeight)
		}
	}
	bottom := c.height - c.bottom
	for i := len(c.ends) - 1; i >= 0; i-- {
		c.ends[i].y = min(c.ends[i].y, bottom)
		bottom = c.ends[i].y - lineHeight
	}
	for _, e := range c.ends {
		c.text(c.width-c.right+7, e.y+4, e.class, e.text)
	}
}

// svg returns the whole plot.
func (c *chart) svg() template.HTML {
	c.drawEnds()
	return template.HTML(fmt.Sprintf(`<svg class="plot" id="%s" role="img" aria-labelledby="%s-t %s-d" viewBox="0 0 %.0f %.0f"><title id="%s-t">%s</title><desc id="%s-d">%s</desc>%s</svg>`,
		c.id, c.id, c.id, c.width, c.height, c.id, html.EscapeString(c.title), c.id, html.EscapeString(c.desc), c.body.String()))
}
