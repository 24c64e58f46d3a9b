package metrics

import (
	"bufio"
	"encoding/json"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/sievedb/sievedb/report"
)

// Bounds are the upper bounds of the buckets of histograms: powers of two of a nanosecond, from 256 ns to
// 17 s. They are bounds of the buckets of report.LatencyHistogram, so the counts are exact, except
// that a duration that is exactly a bound counts above it.
var Bounds = bounds()

func bounds() (all []time.Duration) {
	for shift := 8; shift <= 34; shift++ {
		all = append(all, 1<<shift)
	}
	return all
}

// Cumulative returns for each of Bounds the number of shorter durations.
func Cumulative(h *report.LatencyHistogram) []uint64 {
	counts := make([]uint64, len(Bounds))
	for _, b := range h.Buckets {
		for i := len(Bounds) - 1; i >= 0 && b.To <= Bounds[i]; i-- {
			counts[i] += b.Count
		}
	}
	return counts
}

// TextType is the content type of what WriteText writes.
const TextType = "text/plain; version=0.0.4; charset=utf-8"

// WriteText writes a snapshot in the text format of Prometheus, for a handler of scrapes. The labels,
// in pairs of name and value, are given to every value, to distinguish several stores.
func WriteText(w io.Writer, s Snapshot, labels ...string) error {
	t := textWriter{Writer: bufio.NewWriter(w), common: labels}
	for i := range families {
		t.family(&families[i], families[i].Values(s))
	}
	return t.Flush()
}

// textWriter writes lines. Its first error sticks, and Flush returns it.
type textWriter struct {
	*bufio.Writer
	common []string
}

// family writes a family with its head, unless it has no values.
func (t textWriter) family(f *Family, values []Value) {
	if len(values) == 0 {
		return
	}
	t.WriteString("# HELP " + f.Name + " " + f.Help + "\n# TYPE " + f.Name + " " + string(f.Kind) + "\n")
	for _, v := range values {
		t.value(f, v)
	}
}

func (t textWriter) value(f *Family, v Value) {
	h := v.Histogram
	if h == nil {
		t.line(f.Name, f.Labels, v.Labels, "", v.Value)
		return
	}
	counts := Cumulative(h)
	for i, bound := range Bounds {
		t.line(f.Name+"_bucket", f.Labels, v.Labels, number(bound.Seconds()), float64(counts[i]))
	}
	t.line(f.Name+"_bucket", f.Labels, v.Labels, "+Inf", float64(h.Count))
	t.line(f.Name+"_sum", f.Labels, v.Labels, "", h.Sum.Seconds())
	t.line(f.Name+"_count", f.Labels, v.Labels, "", float64(h.Count))
}

var escaper = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)

func (t textWriter) line(name string, labels, values []string, le string, value float64) {
	t.WriteString(name)
	separator := "{"
	label := func(name, value string) {
		t.WriteString(separator + name + `="` + escaper.Replace(value) + `"`)
		separator = ","
	}
	for i := 1; i < len(t.common); i += 2 {
		label(t.common[i-1], t.common[i])
	}
	for i, name := range labels {
		label(name, values[i])
	}
	if le != "" {
		label("le", le)
	}
	if separator == "," {
		t.WriteByte('}')
	}
	t.WriteString(" " + number(value) + "\n")
}

// number is a value in the shortest form that reads back as it is.
func number(v float64) string {
	if v == math.Trunc(v) && math.Abs(v) < 1<<53 {
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}

// Var makes a store a variable for package expvar, which this package does not import, because it
// adds a handler to every program:
//
//	expvar.Publish("sievedb", metrics.Var(store))
//
// The JSON has the names of the families. A value with labels is in an object for each label.
// Histograms have a count, the sum in seconds, and three quantiles. String reads the store each time.
func Var(source Source) Variable { return Variable{source} }

// Variable is an expvar.Var.
type Variable struct{ source Source }

// String returns the figures as a JSON object.
func (v Variable) String() string {
	s := Read(v.source, false)
	all := map[string]any{}
	for i := range families {
		f := &families[i]
		for _, value := range f.Values(s) {
			place(all, append([]string{f.Name}, value.Labels...), value)
		}
	}
	text, err := json.Marshal(all)
	if err != nil {
		panic(err) // numbers and strings always have a JSON form, and none of the numbers is infinite
	}
	return string(text)
}

// place puts a value into nested objects.
func place(into map[string]any, path []string, v Value) {
	for ; len(path) > 1; path = path[1:] {
		next, ok := into[path[0]].(map[string]any)
		if !ok {
			next = map[string]any{}
			into[path[0]] = next
		}
		into = next
	}
	if h := v.Histogram; h != nil {
		into[path[0]] = map[string]any{
			"count": h.Count, "sum": h.Sum.Seconds(), "p50": h.Quantile(0.5).Seconds(), "p99": h.Quantile(0.99).Seconds(), "max": h.Quantile(1).Seconds(),
		}
		return
	}
	into[path[0]] = v.Value
}
