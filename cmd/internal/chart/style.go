package chart

import (
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
const CSS = `:root {
  --card: #ffffff; --ink: #1b1f24; --soft: #57606a; --rule: #d5dae0; --grid: #e6e9ed;
  --s0: #6b7280; --s1: #c2410c; --s2: #0969a8; --s3: #067a5b; --s4: #7c3aad; --s5: #b4233c; --s6: #7a5c00; --s7: #0e7490;
}
@media screen and (prefers-color-scheme: dark) {
  :root {
    --card: #161b22; --ink: #e6e9ee; --soft: #9aa5b1; --rule: #333b45; --grid: #252c35;
    --s0: #a3adb8; --s1: #ff9d5c; --s2: #62b5f4; --s3: #45cfa3; --s4: #c99bf0; --s5: #ff8a95; --s6: #d9b84a; --s7: #4fd0e0;
  }
}
.s0 { --c: var(--s0); } .s1 { --c: var(--s1); } .s2 { --c: var(--s2); } .s3 { --c: var(--s3); }
.s4 { --c: var(--s4); } .s5 { --c: var(--s5); } .s6 { --c: var(--s6); } .s7 { --c: var(--s7); }
.plot text { font-size: 12px; fill: var(--ink); font-variant-numeric: tabular-nums; }
.plot .heading { font-size: 16px; font-weight: 600; } .plot .panel { font-weight: 600; }
.plot .tick, .plot .axisname, .plot .remark { fill: var(--soft); } .plot .note { fill: var(--c); }
.plot .middle { text-anchor: middle; } .plot .end { text-anchor: end; }
.plot .strong { font-weight: 600; } .plot .label { fill: var(--c); font-weight: 600; }
.plot .label, .plot .note { paint-order: stroke; stroke: var(--card); stroke-width: 3px; stroke-linejoin: round; }
.plot .ground { fill: var(--card); } .plot .bar { fill: var(--c); }
.plot .grid { stroke: var(--grid); stroke-width: 1; } .plot .axis, .plot .tickmark { stroke: var(--rule); stroke-width: 1; }
.plot .line { fill: none; stroke: var(--c); stroke-width: 1.6; stroke-linejoin: round; }
.plot .predicted { stroke-width: 1.4; opacity: .6; }
.plot .dashed, .plot .dash1 { stroke-dasharray: 6 4; } .plot .floor { stroke-dasharray: 1.5 3.5; stroke-width: 1.8; }
.plot .dash2 { stroke-dasharray: 2 3; } .plot .dash3 { stroke-dasharray: 9 3 2 3; } .plot .dash4 { stroke-dasharray: 12 5; }
.plot .band { fill: var(--c); opacity: .22; }
.plot .interval { stroke: var(--c); stroke-width: 1.5; } .plot .stem { stroke: var(--c); stroke-width: 1.5; opacity: .4; }
.plot .mark { fill: var(--c); } .plot .hollow { fill: none; stroke: var(--c); stroke-width: 1; }
`

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
