package chart

import (
	_ "embed"
	"fmt"
	"html"
	"regexp"
	"strings"
)

// Series numbers what a plot compares. Each has its own colour and its own shape of mark, for
// readers who cannot distinguish the colours. Numbers of NumSeries and above repeat them.
type Series int

// NumSeries is the number of different series.
const NumSeries = 8

// Class returns the CSS class that sets the colour --c of a series for an element and its children.
func (s Series) Class() string { return fmt.Sprintf("s%d", int(s)%NumSeries) }

// CSS is the style of all drawings. A page that includes it can use its colours.
//
//go:embed style.css
var CSS string

// fileCSS is added in a file, since no page sets the font.
const fileCSS = `.plot { font-family: system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "DejaVu Sans", Arial, sans-serif; }
`

// element returns an svg element with its title and description. attributes may be empty.
func element(id, attributes string, width, height float64, title, desc, body string) string {
	return fmt.Sprintf(`<svg class="plot" id="%s" role="img" aria-labelledby="%s-t %s-d"%s viewBox="0 0 %.0f %.0f">`+
		`<title id="%s-t">%s</title><desc id="%s-d">%s</desc>%s</svg>`,
		id, id, id, attributes, width, height, id, html.EscapeString(title), id, html.EscapeString(desc), body)
}

// file returns a drawing as the content of an SVG file, with a background.
func file(id string, width, height float64, title, desc, body string) []byte {
	attributes := fmt.Sprintf(` xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%.0f"`, width, height)
	ground := fmt.Sprintf("\n<style>\n%s%s</style>\n<rect class=\"ground\" width=\"%.0f\" height=\"%.0f\" rx=\"8\"/>\n",
		CSS, fileCSS, width, height)
	body = strings.NewReplacer("<line", "\n<line", "<text", "\n<text", "<rect", "\n<rect", "<polyline", "\n<polyline").Replace(body)
	return []byte(element(id, attributes, width, height, title, desc, ground+body+"\n") + "\n")
}

func text(x, y float64, class, s string) string {
	return fmt.Sprintf(`<text class="%s" x="%.1f" y="%.1f">%s</text>`, class, x, y, html.EscapeString(s))
}

var numberAndUnit = regexp.MustCompile(`(\d) ([A-Za-zµ])`)

// wrap breaks a text into lines of at most width runes, or of one word if that is longer. It
// does not break between a number and its unit.
func wrap(s string, width int) (lines []string) {
	line, used := "", 0
	for _, word := range strings.Split(numberAndUnit.ReplaceAllString(s, "$1\u00a0$2"), " ") {
		n := len([]rune(word))
		if line != "" && used+1+n > width {
			lines = append(lines, line)
			line, used = "", 0
		}
		if line != "" {
			line, used = line+" ", used+1
		}
		line, used = line+word, used+n
	}
	if line != "" {
		lines = append(lines, line)
	}
	return lines
}

// The space that a file needs above and below what it draws.
const (
	headingHeight = 36
	lineHeight    = 14
	remarkRunes   = 110 // in a line of 800 units
)

// remarks writes lines below a drawing, from y on, and returns them with their height.
func remarks(lines []string, x, y, width float64) (body string, height float64) {
	var b strings.Builder
	for _, l := range lines {
		for _, part := range wrap(l, int(remarkRunes*width/800)) {
			height += lineHeight + 2
			b.WriteString(text(x, y+height-4, "remark", part))
		}
	}
	return b.String(), height
}
