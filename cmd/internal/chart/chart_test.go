package chart

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// drawing is a well-formed SVG file as a test sees it.
type drawing struct {
	title, desc, style string
	texts              []string
	elements           map[string]int
}

func parse(t *testing.T, file []byte) drawing {
	t.Helper()
	d := drawing{elements: map[string]int{}}
	var inside string
	for tokens := xml.NewDecoder(strings.NewReader(string(file))); ; {
		token, err := tokens.Token()
		if errors.Is(err, io.EOF) {
			return d
		}
		require.NoError(t, err)
		switch token := token.(type) {
		case xml.StartElement:
			inside = token.Name.Local
			d.elements[inside]++
		case xml.EndElement:
			inside = ""
		case xml.CharData:
			switch inside {
			case "title":
				d.title = string(token)
			case "desc":
				d.desc = string(token)
			case "style":
				d.style = string(token)
			case "text":
				d.texts = append(d.texts, string(token))
			}
		}
	}
}

func requireStandsAlone(t *testing.T, d drawing) {
	t.Helper()
	require.NotEmpty(t, d.title)
	require.NotEmpty(t, d.desc)
	require.Contains(t, d.style, "prefers-color-scheme: dark")
	for _, name := range []string{"--card", "--ink", "--soft", "--rule", "--grid", "--s0", "--s7"} {
		require.Equal(t, 2, strings.Count(d.style, name+": "), "%s is set for light and for dark", name)
	}
	require.NotContains(t, d.style, "url(")
	require.Zero(t, d.elements["script"]+d.elements["image"]+d.elements["foreignObject"])
}

func sampleBars() *Bars {
	return &Bars{
		ID: "sample", Title: "Apples & pears", Rows: []string{"apples", "pears"}, Series: []Series{2, 0}, Strong: 0, Columns: 2,
		Panels: []Panel{
			{Title: "weight <kg>", Values: []float64{2, 1}, Texts: []string{"2 kg", "1 kg"}},
			{Title: "price", Values: []float64{3, math.NaN()}, Texts: []string{"3 €", "n/a"}},
			{Title: "of 12", Values: []float64{3, 6}, Texts: []string{"3", "6"}, Max: 12},
		},
		Remarks: []string{strings.Repeat("word ", 100)},
	}
}

func TestBarsAreAFileOfTheirOwn(t *testing.T) {
	d := parse(t, sampleBars().File())
	requireStandsAlone(t, d)
	require.Equal(t, "Apples & pears", d.title)
	require.Equal(t, "weight <kg>: apples 2 kg, pears 1 kg. price: apples 3 €. of 12: apples 3, pears 6.", d.desc)
	require.Equal(t, 1+5, d.elements["rect"], "a ground and five bars: one row of a panel has no value")
	for _, text := range []string{"Apples & pears", "apples", "pears", "weight <kg>", "2 kg", "n/a", "6"} {
		require.Contains(t, d.texts, text)
	}
}

func TestBarsShareTheScaleOfTheirPanel(t *testing.T) {
	b := sampleBars()
	width := func(b *Bars, bar int) (w float64) {
		bars := strings.Split(string(b.File()), `<rect class="bar`)[1:]
		_, after, _ := strings.Cut(bars[bar], `width="`)
		_, err := fmt.Sscanf(after, "%f", &w)
		require.NoError(t, err)
		return w
	}
	require.InDelta(t, 2*width(b, 1), width(b, 0), 0.2)
	require.InDelta(t, width(b, 0), width(b, 2), 0.2, "the longest bars of two panels")
	require.InDelta(t, width(b, 0)/2, width(b, 4), 0.2, "half of Max")
}

func TestBarsFitTheirWidth(t *testing.T) {
	b := sampleBars()
	require.Contains(t, string(b.File()), `width="900"`)
	b.Width, b.Columns = 480, 1
	text := string(b.File())
	require.Contains(t, text, `width="480"`)
	for _, bar := range strings.Split(text, `<rect class="bar`)[1:] {
		var series int
		var x, y, width float64
		_, err := fmt.Sscanf(bar, ` s%d" x="%f" y="%f" width="%f"`, &series, &x, &y, &width)
		require.NoError(t, err)
		require.Less(t, x+width, 480.0-valueRunes*unitsPerRun, "a text at its end has room")
	}
}

func sampleChart() *Chart {
	c := New("sample", "A & B", "what it shows")
	square := func(v float64) string { return fmt.Sprintf("%g²", v) }
	c.SetAxes(Axis{Name: "across", High: 10}, LogAxis("up", []float64{1, 1000}, square))
	for s := range Series(NumSeries) {
		c.Line(s, "predicted", []Point{{X: 0, Y: 1}, {X: 10, Y: 1000}})
		c.Marks(s, 3, []Point{{X: 5, Y: 10, Low: 5, High: 20}})
		c.End(s, 1000, fmt.Sprintf("series %d", s))
	}
	return c
}

func TestAChartIsAFileOfItsOwn(t *testing.T) {
	d := parse(t, sampleChart().File("a remark"))
	requireStandsAlone(t, d)
	require.Equal(t, "what it shows", d.desc)
	require.Equal(t, NumSeries, d.elements["polyline"])
	for _, text := range []string{"A & B", "across", "up", "10²", "100²", "series 0", "series 7", "a remark"} {
		require.Contains(t, d.texts, text)
	}
}

func TestAChartOfAPageBringsNoStyle(t *testing.T) {
	d := parse(t, []byte(sampleChart().SVG()))
	require.Empty(t, d.style)
	require.Equal(t, "A & B", d.title)
	require.NotContains(t, d.texts, "A & B", "the page has the heading")
}

func TestSeriesDifferInShape(t *testing.T) {
	shapes := map[string]bool{}
	for s := range Series(NumSeries) {
		shapes[strings.ReplaceAll(mark(s, 0, 0, 10), s.Class(), "")] = true
	}
	require.Len(t, shapes, NumSeries)
	require.Equal(t, Series(1).Class(), Series(1+NumSeries).Class())
}

func TestNamesAtTheEndsKeepTheirDistance(t *testing.T) {
	c := New("sample", "title", "desc")
	unit := Axis{High: 1}
	c.SetAxes(unit, unit)
	for range 4 {
		c.End(1, 0, "name")
	}
	var ys []float64
	for _, part := range strings.Split(c.SVG(), `<text class="label s1"`)[1:] {
		var x, y float64
		_, err := fmt.Sscanf(part, ` x="%f" y="%f"`, &x, &y)
		require.NoError(t, err)
		ys = append(ys, y)
	}
	require.Len(t, ys, 4)
	for i := range ys[1:] {
		require.GreaterOrEqual(t, ys[i+1]-ys[i], float64(lineHeight))
	}
	require.LessOrEqual(t, ys[3], c.Height-c.Bottom+5, "the lowest is not below the plot")
}

func TestAxesHaveRoundTicks(t *testing.T) {
	ticks := func(a Axis) (texts []string) {
		for _, tick := range a.Ticks {
			texts = append(texts, tick.Text)
		}
		return texts
	}
	text := func(v float64) string { return fmt.Sprintf("%g", v) }
	require.Equal(t, []string{"2", "5", "10", "20", "50"}, ticks(LogAxis("", []float64{3, 40}, text)))
	a := LogAxis("", []float64{3, 4000}, text)
	require.Equal(t, []string{"1", "10", "100", "1000", "10000"}, ticks(a))
	a.Fit(2, 6000)
	require.Equal(t, []string{"10", "100", "1000"}, ticks(a))
	require.Equal(t, []float64{2, 6000}, []float64{a.Low, a.High})
	require.Equal(t, []string{"0.1", "0.2", "0.5", "1"}, ticks(LogAxis("", nil, text)))
}

func TestTextIsWrappedBetweenWords(t *testing.T) {
	require.Empty(t, wrap("", 10))
	require.Equal(t, []string{"a line of", "10.5\u00a0MiB"}, wrap("a line of 10.5 MiB", 14))
	text := strings.TrimSpace(strings.Repeat("word ", 50))
	lines := wrap(text, 99)
	require.Len(t, lines, 3)
	require.Equal(t, strings.Fields(text), strings.Fields(strings.Join(lines, " ")))
	require.Equal(t, []string{"a", "longest", "word"}, wrap("a longest word", 5))
}

// The names of rings that are close to each other are apart.
func TestNamesOfOthersDoNotTouch(t *testing.T) {
	c := New("id", "title", "desc")
	c.SetAxes(Axis{Low: 0, High: 10}, Axis{Low: 0, High: 100})
	c.Others(2, []NamedPoint{{5, 50, "b"}, {5, 49, "c"}, {5, 51, "a"}})
	svg := c.SVG()
	require.Equal(t, 3, strings.Count(svg, `class="hollow s2"`))
	var at []float64
	for _, m := range regexp.MustCompile(`<text class="label s2" x="[\d.]+" y="([\d.]+)">([abc])`).FindAllStringSubmatch(svg, -1) {
		y, err := strconv.ParseFloat(m[1], 64)
		require.NoError(t, err)
		require.Equal(t, string(rune('a'+len(at))), m[2], "from the top")
		at = append(at, y)
	}
	require.Len(t, at, 3)
	require.InDelta(t, lineHeight, at[1]-at[0], 0.2)
	require.InDelta(t, lineHeight, at[2]-at[1], 0.2)
}
