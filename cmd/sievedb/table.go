package main

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mattn/go-runewidth"

	"github.com/sievedb/sievedb/report/columns"
)

// metric measures texts as a terminal shows them.
var metric = columns.Metric{Width: runewidth.StringWidth, Head: func(text string, width int) string {
	return runewidth.Truncate(text, width, "")
}}

// table is a table with one line of heads. Those have marks: see columns.NewColumn.
type table struct {
	o *output
	columns.Table
}

func (o *output) table(heads ...string) *table {
	t := &table{o: o, Table: columns.Table{Metric: metric}}
	for _, head := range heads {
		t.Columns = append(t.Columns, columns.NewColumn(head))
	}
	return t
}

func (t *table) row(cells ...any) {
	row := make([]string, len(cells))
	for i, c := range cells {
		row[i] = t.o.cell(c)
	}
	t.Rows = append(t.Rows, row)
}

// print prints the table: as records, with tabs in a pipe, otherwise aligned, with numbers to the right, and not wider
// than the terminal.
func (t *table) print() {
	heads := t.Heads()
	switch {
	case t.o.record:
		for n, row := range t.Rows {
			t.o.recordOf(n, heads, row)
		}
		return
	case !t.o.people:
		t.o.printf("%s\n", t.o.style(styleHead, strings.Join(heads, "\t")))
		for _, row := range t.Rows {
			t.o.printf("%s\n", strings.Join(row, "\t"))
		}
		return
	}
	t.Measure()
	shown := t.Fit(t.o.width)
	t.o.printf("%s\n", t.o.style(styleHead, t.Line(shown, heads)))
	for _, row := range t.Rows {
		t.o.printf("%s\n", t.Line(shown, row))
	}
	if hidden := t.Hidden(shown); len(hidden) > 0 {
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

// stream is a table that has no end, so that the widths of its columns are given: 0 for those that share what is left.
type stream struct {
	o       *output
	columns []*columns.Column
	shown   []int
	rows    int
}

// stream begins a table and prints its heads. Each width belongs to the head before it.
func (o *output) stream(headsAndWidths ...any) *stream {
	s := &stream{o: o}
	t := columns.Table{Metric: metric}
	for i := 0; i < len(headsAndWidths); i += 2 {
		c := columns.NewColumn(headsAndWidths[i].(string))
		if c.Width = headsAndWidths[i+1].(int); c.Width == 0 {
			c.Cut, c.Width = true, 1<<10
		}
		t.Columns = append(t.Columns, c)
	}
	s.columns, s.shown = t.Columns, t.Fit(o.width)
	if !o.record && !o.json {
		var heads []any
		for _, c := range s.columns {
			heads = append(heads, c.Head)
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
		names, texts = append(names, s.columns[i].Head), append(texts, s.o.cell(c))
	}
	s.o.recordOf(s.rows, names, texts)
	s.rows++
}

func (s *stream) line(cells []any) string {
	var parts []string
	for i, c := range cells {
		text := s.o.cell(c)
		if s.o.people && slices.Contains(s.shown, i) {
			width := s.columns[i].Width
			if s.columns[i].Number { // a number is never cut
				width = max(width, runewidth.StringWidth(text))
			}
			text = metric.Pad(text, width, s.columns[i].Number)
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
		text := wrapped(metric.Pad(name, width, false)+"  "+value, o.width, width+2)
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

// wrapped breaks a line at spaces so that it is not wider than width, if that is known. What follows is indented.
func wrapped(text string, width, indent int) string { return metric.Wrap(text, width, indent) }

// paragraphs breaks a text of the help at the usual width. Its own line ends within a paragraph do not count.
func paragraphs(text string) string {
	parts := strings.Split(text, "\n\n")
	for i, p := range parts {
		parts[i] = wrapped(strings.ReplaceAll(p, "\n", " "), defaultWidth, 0)
	}
	return strings.Join(parts, "\n\n")
}
