package main

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/mattn/go-runewidth"
)

// column is a column of a table. Its head begins with "+" if narrow terminals can do without it, then with "~" if its
// cells can be cut there, such as keys, or with "#" if they are numbers of a stream.
type column struct {
	head       string
	extra, cut bool
	number     bool // all cells are numbers
	width      int
}

// minCut is how much of a cell that can be cut stays before other columns are left out, in columns of a terminal.
const minCut = 12

func newColumn(head string) *column {
	c := &column{}
	head, c.extra = strings.CutPrefix(head, "+")
	head, c.cut = strings.CutPrefix(head, "~")
	c.head, c.number = strings.CutPrefix(head, "#")
	return c
}

// least is the width that the column needs.
func (c *column) least() int {
	if c.cut {
		return min(c.width, minCut)
	}
	return c.width
}

// table is a table with one line of heads.
type table struct {
	o       *output
	columns []*column
	rows    [][]string
}

func (o *output) table(heads ...string) *table {
	t := &table{o: o}
	for _, head := range heads {
		t.columns = append(t.columns, newColumn(head))
	}
	return t
}

func (t *table) row(cells ...any) {
	row := make([]string, len(cells))
	for i, c := range cells {
		row[i] = t.o.cell(c)
	}
	t.rows = append(t.rows, row)
}

// print prints the table: as records, with tabs in a pipe, otherwise aligned, with numbers to the right, and not wider
// than the terminal.
func (t *table) print() {
	heads := make([]string, len(t.columns))
	for i, c := range t.columns {
		heads[i] = c.head
	}
	switch {
	case t.o.record:
		for n, row := range t.rows {
			t.o.recordOf(n, heads, row)
		}
		return
	case !t.o.people:
		t.o.printf("%s\n", t.o.style(styleHead, strings.Join(heads, "\t")))
		for _, row := range t.rows {
			t.o.printf("%s\n", strings.Join(row, "\t"))
		}
		return
	}
	t.measure()
	shown := t.fit()
	t.o.printf("%s\n", t.o.style(styleHead, t.line(shown, heads)))
	for _, row := range t.rows {
		t.o.printf("%s\n", t.line(shown, row))
	}
	if len(shown) < len(t.columns) {
		var hidden []string
		for i, c := range t.columns {
			if !slices.Contains(shown, i) {
				hidden = append(hidden, c.head)
			}
		}
		t.o.prose("not shown: %s; --record prints all", strings.Join(hidden, ", "))
	}
}

// recordOf prints row n in lines of a name and a value.
func (o *output) recordOf(n int, names, row []string) {
	if n > 0 {
		o.printf("\n")
	}
	var pairs []any
	for i, cell := range row {
		pairs = append(pairs, names[i], cell)
	}
	o.pairs(pairs...)
}

// measure sets the natural widths of the columns.
func (t *table) measure() {
	for i, c := range t.columns {
		c.width, c.number = runewidth.StringWidth(c.head), true
		for _, row := range t.rows {
			c.width = max(c.width, runewidth.StringWidth(row[i]))
			c.number = c.number && isNumber(row[i])
		}
	}
}

// fit returns the columns that fit into the terminal, and sets the widths of those that are cut.
func (t *table) fit() (shown []int) {
	for i := range t.columns {
		shown = append(shown, i)
	}
	room := func() int { // what is left if all columns are as narrow as they can be
		left := t.o.width - 2*(len(shown)-1)
		for _, i := range shown {
			left -= t.columns[i].least()
		}
		return left
	}
	if t.o.width == 0 {
		return shown
	}
	for n := len(shown) - 1; n >= 0 && room() < 0; n-- {
		if t.columns[shown[n]].extra {
			shown = slices.Delete(shown, n, n+1)
		}
	}
	left := max(room(), 0)
	for n, cuts := 0, t.cuts(shown); n < len(cuts); n++ { // the narrowest first, so that wide ones get what it leaves
		c := cuts[n]
		more := min(c.width-c.least(), left/(len(cuts)-n))
		c.width, left = c.least()+more, left-more
	}
	return shown
}

// cuts returns the columns of shown that can be cut, the narrowest first.
func (t *table) cuts(shown []int) (cuts []*column) {
	for _, i := range shown {
		if t.columns[i].cut {
			cuts = append(cuts, t.columns[i])
		}
	}
	slices.SortStableFunc(cuts, func(a, b *column) int { return a.width - b.width })
	return cuts
}

// line returns the cells of the columns in shown.
func (t *table) line(shown []int, cells []string) string {
	var line strings.Builder
	for _, i := range shown {
		line.WriteString(padded(cells[i], t.columns[i].width, t.columns[i].number) + "  ")
	}
	return strings.TrimRight(line.String(), " ")
}

// padded returns a cell of this width, cut if it is longer.
func padded(cell string, width int, number bool) string {
	cell = cutText(cell, width)
	pad := strings.Repeat(" ", max(0, width-runewidth.StringWidth(cell)))
	if number {
		return pad + cell
	}
	return cell + pad
}

// cutText leaves out the middle of a text that is wider than width: keys often differ at their ends.
func cutText(text string, width int) string {
	if runewidth.StringWidth(text) <= width {
		return text
	}
	dots := runewidth.StringWidth("…") // two columns in an east-asian locale
	left := max(width-dots, 0) * 2 / 5
	head := runewidth.Truncate(text, width-dots-left, "")
	tail := len(text)
	for {
		r, n := utf8.DecodeLastRuneInString(text[:tail])
		if left -= runewidth.RuneWidth(r); n == 0 || left < 0 {
			return head + "…" + text[tail:]
		}
		tail -= n
	}
}

// isNumber reports whether a cell lines up with numbers: it is one, with or without a unit, or empty.
func isNumber(cell string) bool {
	word, _, _ := strings.Cut(cell, " ")
	word = strings.TrimSuffix(strings.TrimLeft(word, "-+"), "%")
	_, err := strconv.ParseFloat(strings.ReplaceAll(word, ",", ""), 64)
	return err == nil || cell == "" || cell == "?" || cell == "-"
}

// stream is a table that has no end, so that the widths of its columns are given: 0 for those that share what is left.
type stream struct {
	o       *output
	columns []*column
	shown   []int
	rows    int
}

// stream begins a table and prints its heads. Each width belongs to the head before it.
func (o *output) stream(headsAndWidths ...any) *stream {
	s := &stream{o: o}
	t := &table{o: o}
	for i := 0; i < len(headsAndWidths); i += 2 {
		c := newColumn(headsAndWidths[i].(string))
		if c.width = headsAndWidths[i+1].(int); c.width == 0 {
			c.cut, c.width = true, 1<<10
		}
		t.columns = append(t.columns, c)
	}
	s.columns, s.shown = t.columns, t.fit()
	if !o.record && !o.json {
		var heads []any
		for _, c := range s.columns {
			heads = append(heads, c.head)
		}
		o.printf("%s\n", o.style(styleHead, s.line(heads)))
	}
	return s
}

// row prints one row.
func (s *stream) row(cells ...any) {
	if !s.o.record {
		s.o.printf("%s\n", s.line(cells))
		return
	}
	var names, texts []string
	for i, c := range cells {
		names, texts = append(names, s.columns[i].head), append(texts, s.o.cell(c))
	}
	s.o.recordOf(s.rows, names, texts)
	s.rows++
}

func (s *stream) line(cells []any) string {
	var parts []string
	for i, c := range cells {
		text := s.o.cell(c)
		if s.o.people && slices.Contains(s.shown, i) {
			width := s.columns[i].width
			if s.columns[i].number { // a number is never cut
				width = max(width, runewidth.StringWidth(text))
			}
			text = padded(text, width, s.columns[i].number)
		} else if s.o.people {
			continue
		}
		parts = append(parts, text)
	}
	sep := "\t"
	if s.o.people {
		sep = "  "
	}
	line := strings.Join(parts, sep)
	if s.o.people {
		line = strings.TrimRight(line, " ")
	}
	return line
}

// pairs prints names with their values.
func (o *output) pairs(pairs ...any) {
	width := 0
	for i := 0; i < len(pairs); i += 2 {
		width = max(width, runewidth.StringWidth(pairs[i].(string)))
	}
	for i := 0; i < len(pairs); i += 2 {
		name, value := pairs[i].(string), o.cell(pairs[i+1])
		if !o.people {
			o.printf("%s\t%s\n", name, value)
			continue
		}
		text := wrapped(padded(name, width, false)+"  "+value, o.width, width+2)
		o.printf("%s%s\n", o.style(styleHead, name), text[len(name):])
	}
}

// prose prints a line for people, who get it broken at the width of their terminal.
func (o *output) prose(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if o.people {
		text = wrapped(text, o.width, len(text)-len(strings.TrimLeft(text, " "))+2)
	}
	o.printf("%s\n", text)
}

var amounts = regexp.MustCompile(`\b(\d+) bytes\b|\b\d+(\.\d+)?(ns|µs|ms|s)\b`)

// forPeople returns a text of a package with its sizes and durations as the tool prints them.
func forPeople(text string) string {
	return amounts.ReplaceAllStringFunc(text, func(amount string) string {
		if n, err := strconv.ParseUint(strings.TrimSuffix(amount, " bytes"), 10, 64); err == nil {
			return sizeText(n)
		}
		if d, err := time.ParseDuration(amount); err == nil {
			return durationText(d)
		}
		return amount
	})
}

// isUnit reports whether a word is one of a number before it.
func isUnit(word string) bool {
	switch strings.TrimRight(word, ",;:)") {
	case "B", "KiB", "MiB", "GiB", "TiB", "%":
		return true
	}
	return false
}

// wrapped breaks a line at spaces so that it is not wider than width, if that is known. What follows is indented.
func wrapped(text string, width, indent int) string {
	if width == 0 || runewidth.StringWidth(text) <= width {
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
		n := runewidth.StringWidth(word)
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

// paragraphs breaks a text of the help at the usual width. Its own line ends within a paragraph do not count.
func paragraphs(text string) string {
	parts := strings.Split(text, "\n\n")
	for i, p := range parts {
		parts[i] = wrapped(strings.ReplaceAll(p, "\n", " "), defaultWidth, 0)
	}
	return strings.Join(parts, "\n\n")
}
