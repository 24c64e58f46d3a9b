package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/sievedb/sievedb/cmd/internal/bench"
)

// output prints the results of all verbs: aligned for people, plain for pipes, or as JSON.
type output struct {
	w      *bufio.Writer
	format format
	prefix []byte // of --namespace: keys are given and printed without it
	json   bool
	people bool // standard output is a terminal
	color  bool
}

// valueCell is a value in a table, whose other bytes are keys.
type valueCell []byte

// size is a number of bytes: people read it with a unit, programs as it is.
type size uint64

// result prints the one result of a verb: value as JSON, otherwise what text prints.
func (o *output) result(value any, text func()) error {
	if !o.json {
		text()
		return o.w.Flush()
	}
	var b bytes.Buffer
	if err := json.Indent(&b, appendJSON(nil, value, o.format), "", "  "); err != nil {
		return err
	}
	b.WriteByte('\n')
	_, err := o.w.Write(b.Bytes())
	return err
}

// item prints one of many results: value as a line of JSON, otherwise what text prints. After an
// error of the output, item returns it.
func (o *output) item(value any, text func()) error {
	if o.json {
		_, _ = o.w.Write(append(appendJSON(nil, value, o.format), '\n'))
	} else {
		text()
	}
	_, err := o.w.Write(nil) // bufio.Writer keeps its first error
	return err
}

func (o *output) printf(format string, args ...any) { fmt.Fprintf(o.w, format, args...) }

// key returns a key as it is printed.
func (o *output) key(b []byte) string { return o.format.key.text(b) }

// value returns a value as it is printed.
func (o *output) value(b []byte) string { return o.format.value.text(b) }

// The colours, as few as possible: a heading, a fault, and what is good.
const (
	styleHead  = "1"
	styleFault = "31"
	styleGood  = "32"
)

func (o *output) style(style, text string) string {
	if !o.color || text == "" || style == "" {
		return text
	}
	return "\x1b[" + style + "m" + text + "\x1b[0m"
}

// cell returns a value as a cell of a table.
func (o *output) cell(v any) string {
	switch v := v.(type) {
	case []byte:
		return o.key(v)
	case valueCell:
		return o.value(v)
	case size:
		if o.people {
			return bench.SizeText(uint64(v))
		}
		return strconv.FormatUint(uint64(v), 10)
	case float64:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case string:
		return v
	}
	return fmt.Sprint(v)
}

// table is a table with one line of heads.
type table struct {
	o    *output
	rows [][]string
}

func (o *output) table(heads ...string) *table { return &table{o: o, rows: [][]string{heads}} }

func (t *table) row(cells ...any) {
	row := make([]string, len(cells))
	for i, c := range cells {
		row[i] = t.o.cell(c)
	}
	t.rows = append(t.rows, row)
}

// print prints the table: with tabs in a pipe, otherwise aligned, with numbers to the right.
func (t *table) print() {
	widths, numbers := t.columns()
	for n, row := range t.rows {
		var line strings.Builder
		for i, cell := range row {
			if !t.o.people {
				if i > 0 {
					line.WriteByte('\t')
				}
				line.WriteString(cell)
				continue
			}
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if numbers[i] {
				line.WriteString(pad + cell + "  ")
			} else {
				line.WriteString(cell + pad + "  ")
			}
		}
		text := strings.TrimRight(line.String(), " ")
		if n == 0 {
			text = t.o.style(styleHead, text)
		}
		t.o.printf("%s\n", text)
	}
}

// columns returns the width of each column and whether all of its cells are numbers.
func (t *table) columns() (widths []int, numbers []bool) {
	widths, numbers = make([]int, len(t.rows[0])), make([]bool, len(t.rows[0]))
	for i := range numbers {
		numbers[i] = true
	}
	for n, row := range t.rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
			numbers[i] = numbers[i] && (n == 0 || isNumber(cell))
		}
	}
	return widths, numbers
}

// isNumber reports whether a cell lines up with numbers: it is one, with or without a unit, or empty.
func isNumber(cell string) bool {
	word, _, _ := strings.Cut(cell, " ")
	word = strings.TrimSuffix(strings.TrimLeft(word, "-+"), "%")
	_, err := strconv.ParseFloat(strings.ReplaceAll(word, ",", ""), 64)
	return err == nil || cell == "" || cell == "?" || cell == "-"
}

// streamed prints a row of a table that has no end, whose widths cannot be known.
func (o *output) streamed(style string, cells ...any) {
	row := make([]string, len(cells))
	for i, c := range cells {
		row[i] = o.cell(c)
		if o.people {
			row[i] = fmt.Sprintf("%13s", row[i])
		}
	}
	sep := "\t"
	if o.people {
		sep = "  "
	}
	o.printf("%s\n", o.style(style, strings.Join(row, sep)))
}

// pairs prints names with their values.
func (o *output) pairs(pairs ...any) {
	width := 0
	for i := 0; i < len(pairs); i += 2 {
		width = max(width, utf8.RuneCountInString(pairs[i].(string)))
	}
	for i := 0; i < len(pairs); i += 2 {
		name := pairs[i].(string)
		if o.people {
			o.printf("%s%s  %s\n", o.style(styleHead, name), strings.Repeat(" ", width-utf8.RuneCountInString(name)), o.cell(pairs[i+1]))
		} else {
			o.printf("%s\t%s\n", name, o.cell(pairs[i+1]))
		}
	}
}

// sizeText is a number of bytes as people read it.
func sizeText(n uint64) string { return bench.SizeText(n) }

// counted is a number with its noun.
func counted(n uint64, noun string) string { return bench.Counted(n, noun) }

// share is a part of all in percent.
func share(part, all uint64) string {
	if all == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f %%", 100*float64(part)/float64(all))
}

func nonNilSlice[T any](list []T) []T { return append([]T{}, list...) }
