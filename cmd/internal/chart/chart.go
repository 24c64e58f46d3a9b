package chart

import (
	"cmp"
	"fmt"
	"html"
	"slices"
	"strings"
)

// Chart is a plot with two axes. Call SetAxes before drawing; later drawings cover earlier ones.
// Lengths are in units of its view box, which are pixels unless the page scales it.
type Chart struct {
	ID, Title, Desc          string
	Width, Height            float64
	Left, Right, Top, Bottom float64 // margins
	x, y                     Axis
	body                     strings.Builder
	ends                     []endLabel
}

// endLabel is the name of a line at its right end.
type endLabel struct {
	y           float64
	class, text string
}

// Point is a measured value, with its interval if High is above Low.
type Point struct{ X, Y, Low, High float64 }

// New returns a chart without axes. id must be unique on the page.
func New(id, title, desc string) *Chart {
	return &Chart{ID: id, Title: title, Desc: desc, Width: 500, Height: 330, Left: 66, Right: 136, Top: 14, Bottom: 46}
}

// SetAxes fits the axes to the margins and draws the grid.
func (c *Chart) SetAxes(x, y Axis) {
	x.from, x.to = c.Left, c.Width-c.Right
	y.from, y.to = c.Height-c.Bottom, c.Top
	c.x, c.y = x, y
	for _, t := range y.Ticks {
		at := y.at(t.At)
		c.segment("grid", x.from, x.to, at, at)
		c.text(x.from-6, at+4, "tick end", t.Text)
	}
	for _, t := range x.Ticks {
		at := x.at(t.At)
		c.segment("tickmark", at, at, y.from, y.from+4)
		c.text(at, y.from+17, "tick middle", t.Text)
	}
	c.segment("axis", x.from, x.to, y.from, y.from)
	if x.Name != "" {
		c.text((x.from+x.to)/2, y.from+37, "axisname middle", x.Name)
	}
	if y.Name != "" {
		fmt.Fprintf(&c.body, `<text class="axisname middle" transform="translate(13 %.1f) rotate(-90)">%s</text>`,
			(y.from+y.to)/2, html.EscapeString(y.Name))
	}
}

func (c *Chart) text(x, y float64, class, s string) { c.body.WriteString(text(x, y, class, s)) }

func (c *Chart) segment(class string, x1, x2, y1, y2 float64) {
	fmt.Fprintf(&c.body, `<line class="%s" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/>`, class, x1, x2, y1, y2)
}

// Line joins points. style is one of the classes of CSS for lines, such as "predicted" or "dash1", or empty.
func (c *Chart) Line(s Series, style string, points []Point) {
	if len(points) < 2 {
		return
	}
	fmt.Fprintf(&c.body, `<polyline class="line %s %s" points="`, style, s.Class())
	for _, p := range points {
		fmt.Fprintf(&c.body, "%.1f,%.1f ", c.x.at(p.X), c.y.at(p.Y))
	}
	c.body.WriteString(`"/>`)
}

// Marks draws measured values with their intervals. size is about half of a mark's width.
func (c *Chart) Marks(s Series, size float64, points []Point) {
	for _, p := range points {
		x := c.x.at(p.X)
		if p.High > p.Low {
			c.segment("interval "+s.Class(), x, x, c.y.at(p.Low), c.y.at(p.High))
		}
		c.body.WriteString(mark(s, x, c.y.at(p.Y), size))
	}
}

// mark draws the shape of a series: a triangle, circle, square, diamond, or one of these turned or narrow.
func mark(s Series, x, y, size float64) string {
	class := `class="mark ` + s.Class() + `"`
	switch int(s) % NumSeries {
	case 0:
		r := 1.3 * size
		return fmt.Sprintf(`<path %s d="M%.1f %.1fl%.1f %.1fh%.1fz"/>`, class, x, y-r, r, 2*r, -2*r)
	case 2:
		return fmt.Sprintf(`<rect %s x="%.1f" y="%.1f" width="%.1f" height="%.1f"/>`, class, x-size, y-size, 2*size, 2*size)
	case 3:
		r := 1.6 * size
		return fmt.Sprintf(`<path %s d="M%.1f %.1fl%.1f %.1fl%.1f %.1fl%.1f %.1fz"/>`, class, x, y-r, r, r, -r, r, -r, -r)
	case 4:
		r := 1.3 * size
		return fmt.Sprintf(`<path %s d="M%.1f %.1fl%.1f %.1fh%.1fz"/>`, class, x, y+r, r, -2*r, -2*r)
	case 5: // an upright bar
		return fmt.Sprintf(`<rect %s x="%.1f" y="%.1f" width="%.1f" height="%.1f"/>`, class, x-size/2, y-1.4*size, size, 2.8*size)
	case 6: // a triangle to the right
		r := 1.3 * size
		return fmt.Sprintf(`<path %s d="M%.1f %.1fv%.1fl%.1f %.1fz"/>`, class, x-r, y-r, 2*r, 2*r, -r)
	case 7: // a level bar
		return fmt.Sprintf(`<rect %s x="%.1f" y="%.1f" width="%.1f" height="%.1f"/>`, class, x-1.4*size, y-size/2, 2.8*size, size)
	}
	return fmt.Sprintf(`<circle %s cx="%.1f" cy="%.1f" r="%.1f"/>`, class, x, y, 1.1*size)
}

// End writes the name of a line to the right of the plot, as near to y as the other names allow.
func (c *Chart) End(s Series, y float64, name string) {
	c.ends = append(c.ends, endLabel{c.y.at(y), "label " + s.Class(), name})
}

// NamedPoint is a value with a name.
type NamedPoint struct {
	X, Y float64
	Name string
}

// Others draws values that belong to a series without being part of its line, as rings, with their names on the right:
// as near to the rings as the other names allow. The points have the same X.
func (c *Chart) Others(s Series, points []NamedPoint) {
	points = slices.SortedFunc(slices.Values(points), func(a, b NamedPoint) int { return cmp.Compare(b.Y, a.Y) }) // from the top
	if len(points) == 0 {
		return
	}
	first, last, high := c.y.at(points[0].Y), c.y.at(points[len(points)-1].Y), lineHeight*float64(len(points)-1)
	free := first
	if high > last-first { // there is no room at the rings, so the names are around the middle of them
		free = (first+last)/2 - high/2
	}
	for _, p := range points {
		x, y := c.x.at(p.X), c.y.at(p.Y)
		at := free
		if high <= last-first {
			at = max(y, free)
		}
		free = at + lineHeight
		fmt.Fprintf(&c.body, `<circle class="hollow %s" cx="%.1f" cy="%.1f" r="4"/>`, s.Class(), x, y)
		c.text(x+12, at+4, "label "+s.Class(), p.Name)
	}
}

func (c *Chart) drawEnds() {
	slices.SortStableFunc(c.ends, func(a, b endLabel) int { return cmp.Compare(a.y, b.y) })
	for i := range c.ends {
		if i > 0 {
			c.ends[i].y = max(c.ends[i].y, c.ends[i-1].y+lineHeight)
		}
	}
	bottom := c.Height - c.Bottom
	for i := len(c.ends) - 1; i >= 0; i-- {
		c.ends[i].y = min(c.ends[i].y, bottom)
		bottom = c.ends[i].y - lineHeight
	}
	for _, e := range c.ends {
		c.text(c.Width-c.Right+7, e.y+4, e.class, e.text)
	}
	c.ends = nil
}

// SVG returns the chart as an element for a page that includes CSS.
func (c *Chart) SVG() string {
	c.drawEnds()
	return element(c.ID, "", c.Width, c.Height, c.Title, c.Desc, c.body.String())
}

// File returns the chart as an SVG file, with its title above it and remarks below.
func (c *Chart) File(lines ...string) []byte {
	c.drawEnds()
	notes, used := remarks(lines, barsMargin, headingHeight+c.Height, c.Width)
	body := text(barsMargin, headingHeight-10, "heading", c.Title) +
		fmt.Sprintf(`<g transform="translate(0 %d)">`, headingHeight) + c.body.String() + "</g>" + notes
	return file(c.ID, c.Width, headingHeight+c.Height+used+barsMargin/2, c.Title, c.Desc, body)
}
