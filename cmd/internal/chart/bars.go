package chart

import (
	"fmt"
	"math"
	"strings"
)

// Bars compares the same rows in several panels, with a horizontal bar for each row.
type Bars struct {
	ID, Title string
	Remarks   []string // below the panels
	Rows      []string
	Series    []Series // the colour of each row
	Strong    int      // the row whose text is bold; -1: none
	Columns   int      // panels side by side
	Width     float64  // of the drawing; 0: 900. A phone shows at most 480 without making texts too small
	Panels    []Panel
}

// Panel is one measurement of all rows.
type Panel struct {
	Title string
	// Values are the lengths of the bars, each at least 0; NaN: this row has none.
	Values []float64
	// Texts are written at the ends of the bars.
	Texts []string
	// Max is the value of a bar of full length; 0: the greatest of Values.
	Max float64
}

// The sizes of bars.
const (
	barsWidth   = 900
	barsMargin  = 16
	barHeight   = 11
	barPitch    = 17
	panelHead   = 24
	panelGap    = 20
	valueRunes  = 9 // the longest text at the end of a bar
	unitsPerRun = 6.8
)

// Desc returns the figures in words: what the description of the drawing says.
func (b *Bars) Desc() string {
	var parts []string
	for _, p := range b.Panels {
		var figures []string
		for i, row := range b.Rows {
			if !math.IsNaN(p.Values[i]) {
				figures = append(figures, row+" "+p.Texts[i])
			}
		}
		parts = append(parts, p.Title+": "+strings.Join(figures, ", ")+".")
	}
	return strings.Join(parts, " ")
}

// File returns the drawing as an SVG file.
func (b *Bars) File() []byte {
	names, whole := 0.0, b.Width
	if whole == 0 {
		whole = barsWidth
	}
	for _, row := range b.Rows {
		names = max(names, unitsPerRun*float64(len([]rune(row))))
	}
	first := barsMargin + names + 8
	width := (whole - barsMargin - first - panelGap*float64(b.Columns-1)) / float64(b.Columns)
	height := panelHead + float64(len(b.Rows))*barPitch + panelGap
	var body strings.Builder
	body.WriteString(text(barsMargin, headingHeight-10, "heading", b.Title))
	y := float64(headingHeight)
	for start := 0; start < len(b.Panels); start += b.Columns {
		for i, row := range b.Rows {
			body.WriteString(text(first-8, y+panelHead+float64(i)*barPitch+10, "end"+b.weight(i), row))
		}
		for i, p := range b.Panels[start:min(start+b.Columns, len(b.Panels))] {
			b.panel(&body, &p, first+float64(i)*(width+panelGap), y, width)
		}
		y += height
	}
	notes, used := remarks(b.Remarks, barsMargin, y-panelGap+10, whole)
	body.WriteString(notes)
	return file(b.ID, whole, y-panelGap+10+used+barsMargin/2, b.Title, b.Desc(), body.String())
}

func (b *Bars) weight(row int) string {
	if row == b.Strong {
		return " strong"
	}
	return ""
}

// panel draws one panel, of a width that includes the texts at the ends of its bars.
func (b *Bars) panel(body *strings.Builder, p *Panel, x, y, width float64) {
	longest := p.Max
	for _, v := range p.Values {
		if p.Max == 0 && v > longest { // never for NaN
			longest = v
		}
	}
	room := width - valueRunes*unitsPerRun
	bottom := y + panelHead + float64(len(b.Rows))*barPitch
	body.WriteString(text(x, y+14, "panel", p.Title))
	fmt.Fprintf(body, `<line class="axis" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/>`, x, x, y+panelHead-3, bottom-3)
	for i, v := range p.Values {
		at := y + panelHead + float64(i)*barPitch
		length := 0.0
		if !math.IsNaN(v) && longest > 0 {
			length = v / longest * room
			fmt.Fprintf(body, `<rect class="bar %s" x="%.1f" y="%.1f" width="%.1f" height="%d"/>`, b.Series[i].Class(), x, at, max(length, 1), barHeight)
		}
		body.WriteString(text(x+length+5, at+10, "value"+b.weight(i), p.Texts[i]))
	}
}
