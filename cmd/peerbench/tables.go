package main

import (
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"github.com/sievedb/sievedb/cmd/internal/bench"
	"github.com/sievedb/sievedb/vfs/outfile"
)

// known returns text, or "n/a" if there is no figure.
func known(ok bool, text string) string {
	if !ok {
		return "n/a"
	}
	return text
}

func count(v float64) string { return bench.Grouped(uint64(math.Round(v))) }

// short formats v with about three significant digits.
func short(v float64) string {
	switch {
	case v >= 100:
		return count(v)
	case v >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case v >= 1 || v == 0:
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
	return strconv.FormatFloat(v, 'f', 4, 64)
}

func ratio(a, b float64) string {
	if b == 0 {
		return "n/a"
	}
	return fmt.Sprintf("%.2f×", a/b)
}

// writeText writes the report as plain text.
func (rep *report) writeText(w io.Writer) {
	for _, line := range rep.lines() {
		fmt.Fprintln(w, line)
	}
	for _, t := range rep.tables() {
		fmt.Fprintf(w, "\n%s\n", t.title)
		tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
		for _, cells := range append([][]string{t.head}, t.rows...) {
			fmt.Fprintln(tw, strings.Join(cells, "\t")+"\t")
		}
		_ = tw.Flush() // like Fprintln; nothing can be done about a closed terminal
		if t.note != "" {
			fmt.Fprintln(w, t.note)
		}
	}
}

// pageColumns is the width of the lines in a page, tables excepted.
const pageColumns = 118

// wrapped breaks a paragraph into lines.
func wrapped(paragraph string) string {
	var b strings.Builder
	used := 0
	for _, word := range strings.Fields(paragraph) {
		width := utf8.RuneCountInString(word)
		switch {
		case used == 0:
		case used+1+width > pageColumns:
			b.WriteByte('\n')
			used = 0
		default:
			b.WriteByte(' ')
			used++
		}
		b.WriteString(word)
		used += width
	}
	return b.String()
}

// markdown returns the report for a page. readPage reads it.
func (p *page) markdown() string {
	var b strings.Builder
	for _, line := range p.lines {
		fmt.Fprintf(&b, "%s\n\n", wrapped(line))
	}
	for _, t := range p.tables {
		fmt.Fprintf(&b, "**%s**\n\n%s\n", t.title, t.markdown())
		if t.note != "" {
			fmt.Fprintf(&b, "%s\n\n", wrapped(t.note))
		}
	}
	return b.String()
}

func (t *table) markdown() string {
	text := fmt.Sprintf("| %s |\n| --- |%s\n", strings.Join(t.head, " | "), strings.Repeat(" --: |", len(t.head)-1))
	for _, cells := range t.rows {
		text += fmt.Sprintf("| %s |\n", strings.Join(cells, " | "))
	}
	return text
}

// The marks between which a page has the last run, the last run of --scale, and a summary.
const (
	markBegin  = "<!-- peerbench: begin -->\n"
	markEnd    = "<!-- peerbench: end -->"
	scaleBegin = "<!-- peerscale: begin -->\n"
	scaleEnd   = "<!-- peerscale: end -->"
	largeBegin = "<!-- peerlarge: begin -->\n" // of a run of --scale with a table for each size
	largeEnd   = "<!-- peerlarge: end -->"
	// Between these is a table of other engines, with their fills of one number of keys: runs that were not repeated
	// with the last one, and that the program does not write.
	othersBegin  = "<!-- peerothers: begin -->\n"
	othersEnd    = "<!-- peerothers: end -->"
	summaryBegin = "<!-- peersummary: begin -->\n"
	summaryEnd   = "<!-- peersummary: end -->"
)

// writeMarkdown writes the tables between the marks of a page, or as a new page.
func (rep *report) writeMarkdown(name string) error {
	begin, end := markBegin, markEnd
	switch {
	case rep.cfg.large():
		begin, end = largeBegin, largeEnd
	case rep.cfg.scaled():
		begin, end = scaleBegin, scaleEnd
	}
	return writeBetween(name, begin, end, rep.page().markdown())
}

// writeBetween replaces what a file has between two marks. A file that does not exist is created with only the text.
func writeBetween(name, begin, end, text string) error {
	page, err := os.ReadFile(name)
	if err == nil {
		head, after, begins := strings.Cut(string(page), begin)
		_, tail, ends := strings.Cut(after, end)
		if !begins || !ends {
			return fmt.Errorf("%s exists, but does not have the lines %q and %q to write between", name, strings.TrimSpace(begin), end)
		}
		text = head + begin + "\n" + text + end + tail
	}
	return outfile.Write(name, []byte(text), 0o644)
}
