package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/sievedb/sievedb/cmd/internal/bench"
)

// output prints the results of all verbs: aligned for people, plain for pipes, or as JSON.
type output struct {
	w      *bufio.Writer
	format format
	prefix []byte // of --namespace: keys are given and printed without it
	json   bool
	people bool // standard output is a terminal
	width  int  // of the terminal, in columns; 0: not known
	record bool // --record
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
	case time.Duration:
		return durationText(v)
	case float64:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case string:
		return v
	}
	return fmt.Sprint(v)
}

// sizeText is a number of bytes as people read it.
func sizeText(n uint64) string { return bench.SizeText(n) }

// bytes is a number of bytes in a sentence: exact for programs.
func (o *output) bytes(n uint64) string {
	if o.people {
		return sizeText(n)
	}
	return strconv.FormatUint(n, 10) + " bytes"
}

// durationText is a duration with about three digits.
func durationText(d time.Duration) string {
	for _, unit := range []time.Duration{time.Second, time.Millisecond, time.Microsecond} {
		if d >= 100*unit {
			return d.Round(unit).String()
		}
		if d >= unit {
			return d.Round(unit / 100).String()
		}
	}
	return d.String()
}

// count is a number with its noun in a sentence.
func (o *output) count(n uint64, noun string) string {
	text := counted(n, noun)
	if !o.people {
		text = strings.ReplaceAll(text, ",", "")
	}
	return text
}

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
