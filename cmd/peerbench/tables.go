package main

import (
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/sievedb/sievedb/cmd/internal/bench"
)

// known is text, or that there is nothing to tell.
func known(ok bool, text string) string {
	if !ok {
		return "n/a"
	}
	return text
}

func count(v float64) string { return bench.Grouped(uint64(math.Round(v))) }

// short writes three digits that matter.
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

// writeText shows the report on a terminal.
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
		_ = tw.Flush() // as Fprintln, nothing is to be done about a closed terminal
		if t.note != "" {
			fmt.Fprintln(w, t.note)
		}
	}
}

// markdownText is the report for a page.
func (rep *report) markdownText() string {
	var b strings.Builder
	for _, line := range rep.lines() {
		fmt.Fprintf(&b, "%s\n\n", line)
	}
	for _, t := range rep.tables() {
		fmt.Fprintf(&b, "**%s**\n\n| %s |\n| --- |%s\n", t.title, strings.Join(t.head, " | "), strings.Repeat(" --: |", len(t.head)-1))
		for _, cells := range t.rows {
			fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | "))
		}
		b.WriteString("\n")
		if t.note != "" {
			fmt.Fprintf(&b, "%s\n\n", t.note)
		}
	}
	return b.String()
}

// The marks between which a page holds the last run, and the last of --scale.
const (
	markBegin  = "<!-- peerbench: begin -->\n"
	markEnd    = "<!-- peerbench: end -->"
	scaleBegin = "<!-- peerscale: begin -->\n"
	scaleEnd   = "<!-- peerscale: end -->"
)

// writeMarkdown puts the tables between the marks of a page, or makes a page of
// them.
func (rep *report) writeMarkdown(name string) error {
	text, begin, end := rep.markdownText(), markBegin, markEnd
	if rep.cfg.scaled() {
		text, begin, end = rep.picture(name)+text, scaleBegin, scaleEnd
	}
	page, err := os.ReadFile(name)
	if err == nil {
		head, rest, begins := strings.Cut(string(page), begin)
		_, tail, ends := strings.Cut(rest, end)
		if !begins || !ends {
			return fmt.Errorf("--markdown: %s is there, but has no marks to write between", name)
		}
		text = head + begin + "\n" + text + end + tail
	}
	return os.WriteFile(name, []byte(text), 0o644)
}

// picture shows the plot on a page, where both are written.
func (rep *report) picture(page string) string {
	if rep.cfg.svg == "" {
		return ""
	}
	name, err := filepath.Rel(filepath.Dir(page), rep.cfg.svg)
	if err != nil { // one of them from the root, the other not
		name = rep.cfg.svg
	}
	return fmt.Sprintf("![µs an operation against the number of keys](%s)\n\n", filepath.ToSlash(name))
}
