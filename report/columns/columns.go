// Package columns lays out tables of text that fit a terminal, as sievedb and sieved print them. It prints nothing.
//
// A Table is used by one goroutine.
package columns

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Metric measures text in columns of a terminal. Runes is one without a library; wide letters need another.
type Metric struct {
	Width func(text string) int
	// Head returns the beginning of a text that is not wider than width.
	Head func(text string, width int) string
}

// Runes is the Metric of texts whose runes are one column wide each.
var Runes = Metric{Width: utf8.RuneCountInString, Head: func(text string, width int) string {
	for at := range text {
		if width--; width < 0 {
			return text[:at]
		}
	}
	return text
}}

// minCut is how much of a cell that can be cut stays before other columns are left out, in columns of a terminal.
const minCut = 12

// Column is a column of a table.
type Column struct {
	Head   string
	Extra  bool // narrow terminals can do without it
	Cut    bool // its cells can be cut there, such as keys
	Number bool // all cells are numbers, and are to the right; Measure sets it
	Width  int  // of its cells; Measure and Fit set it
}

// NewColumn returns a column. Its head begins with "+" if narrow terminals can do without it, then with "~" if its
// cells can be cut there, or with "#" if they are numbers.
func NewColumn(head string) *Column {
	c := &Column{}
	head, c.Extra = strings.CutPrefix(head, "+")
	head, c.Cut = strings.CutPrefix(head, "~")
	c.Head, c.Number = strings.CutPrefix(head, "#")
	return c
}

// least is the width that the column needs.
func (c *Column) least() int {
	if c.Cut {
		return min(c.Width, minCut)
	}
	return c.Width
}

// Table is a table. Each row has a cell for each column.
type Table struct {
	Metric
	Columns []*Column
	Rows    [][]string
}

// Heads returns the heads of the columns.
func (t *Table) Heads() []string {
	heads := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		heads[i] = c.Head
	}
	return heads
}

// Measure sets the natural widths of the columns.
func (t *Table) Measure() {
	for i, c := range t.Columns {
		c.Width, c.Number = t.Width(c.Head), true
		for _, row := range t.Rows {
			c.Width = max(c.Width, t.Width(row[i]))
			c.Number = c.Number && IsNumber(row[i])
		}
	}
}

// Fit returns the indexes of the columns that fit into a width, and sets the widths of those that are cut. A width of 0
// fits all. Measure comes before.
func (t *Table) Fit(width int) (shown []int) {
	for i := range t.Columns {
		shown = append(shown, i)
	}
	room := func() int { // what is left if all columns are as narrow as they can be
		left := width - 2*(len(shown)-1)
		for _, i := range shown {
			left -= t.Columns[i].least()
		}
		return left
	}
	if width == 0 {
		return shown
	}
	for n := len(shown) - 1; n >= 0 && room() < 0; n-- {
		if t.Columns[shown[n]].Extra {
			shown = slices.Delete(shown, n, n+1)
		}
	}
	left := max(room(), 0)
	for n, cuts := 0, t.cuts(shown); n < len(cuts); n++ { // the narrowest first, so that wide ones get what it leaves
		c := cuts[n]
		more := min(c.Width-c.least(), left/(len(cuts)-n))
		c.Width, left = c.least()+more, left-more
	}
	return shown
}

// Hidden returns the heads of the columns that are not in shown.
func (t *Table) Hidden(shown []int) (heads []string) {
	for i, c := range t.Columns {
		if !slices.Contains(shown, i) {
			heads = append(heads, c.Head)
		}
	}
	return heads
}

// cuts returns the columns of shown that can be cut, the narrowest first.
func (t *Table) cuts(shown []int) (cuts []*Column) {
	for _, i := range shown {
		if t.Columns[i].Cut {
			cuts = append(cuts, t.Columns[i])
		}
	}
	slices.SortStableFunc(cuts, func(a, b *Column) int { return a.Width - b.Width })
	return cuts
}

// Line returns the cells of the columns in shown, in their widths.
func (t *Table) Line(shown []int, cells []string) string {
	var line strings.Builder
	for _, i := range shown {
		line.WriteString(t.Pad(cells[i], t.Columns[i].Width, t.Columns[i].Number) + "  ")
	}
	return strings.TrimRight(line.String(), " ")
}

// Pad returns a cell of this width, to the right if it is a number, and cut if it is longer.
func (m Metric) Pad(cell string, width int, number bool) string {
	cell = m.Cut(cell, width)
	pad := strings.Repeat(" ", max(0, width-m.Width(cell)))
	if number {
		return pad + cell
	}
	return cell + pad
}

// Cut leaves out the middle of a text that is wider than width: keys often differ at their ends.
func (m Metric) Cut(text string, width int) string {
	if m.Width(text) <= width {
		return text
	}
	dots := m.Width("…") // two columns in an east-asian locale
	left := max(width-dots, 0) * 2 / 5
	head := m.Head(text, width-dots-left)
	tail := len(text)
	for {
		_, n := utf8.DecodeLastRuneInString(text[:tail])
		if left -= m.Width(text[tail-n : tail]); n == 0 || left < 0 {
			return head + "…" + text[tail:]
		}
		tail -= n
	}
}

// IsNumber reports whether a cell lines up with numbers: it is one, with or without a unit, or empty.
func IsNumber(cell string) bool {
	word, _, _ := strings.Cut(cell, " ")
	word = strings.TrimSuffix(strings.TrimLeft(word, "-+"), "%")
	_, err := strconv.ParseFloat(strings.ReplaceAll(word, ",", ""), 64)
	return err == nil || cell == "" || cell == "?" || cell == "-"
}

// isUnit reports whether a word is one of a number before it.
func isUnit(word string) bool {
	switch strings.TrimRight(word, ",;:)") {
	case "B", "KiB", "MiB", "GiB", "TiB", "%":
		return true
	}
	return false
}

// Wrap breaks a line at spaces so that it is not wider than width, if that is not 0. What follows is indented.
func (m Metric) Wrap(text string, width, indent int) string {
	if width == 0 || m.Width(text) <= width {
		return text
	}
	indent = min(indent, width/3)
	var out strings.Builder
	at := 0
	words := strings.Split(text, " ")
	for i := 0; i < len(words); i++ {
		word := words[i]
		for i+1 < len(words) && isUnit(words[i+1]) {
			i++
			word += " " + words[i]
		}
		n := m.Width(word)
		switch {
		case at > indent && at+1+n > width:
			out.WriteString("\n" + strings.Repeat(" ", indent))
			at = indent
		case i > 0:
			out.WriteByte(' ')
			at++
		}
		out.WriteString(word)
		at += n
	}
	return out.String()
}
