package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func printed(o output, print func(o *output)) string {
	var b strings.Builder
	o.w = bufio.NewWriter(&b)
	print(&o)
	_ = o.w.Flush()
	return b.String()
}

func TestTablesAreAlignedForPeopleAndPlainForPipes(t *testing.T) {
	print := func(o *output) {
		tab := o.table("name", "bytes", "share")
		tab.row("a", size(12), "7.1 %")
		tab.row("ünïcode", size(12345678), "?")
		tab.print()
	}
	require.Equal(t, "name\tbytes\tshare\na\t12\t7.1 %\nünïcode\t12345678\t?\n", printed(output{}, print))
	require.Equal(t, "name        bytes  share\na            12 B  7.1 %\nünïcode  11.8 MiB      ?\n", printed(output{people: true}, print))
	require.Contains(t, printed(output{people: true, color: true}, print), "\x1b[1mname        bytes  share\x1b[0m\n")
}

func TestPairsAreAlignedForPeopleAndPlainForPipes(t *testing.T) {
	print := func(o *output) { o.pairs("n", 1, "bytes", size(2048)) }
	require.Equal(t, "n\t1\nbytes\t2048\n", printed(output{}, print))
	require.Equal(t, "n      1\nbytes  2,048 B\n", printed(output{people: true}, print))
}

func TestJSONOfReports(t *testing.T) {
	type inner struct{ L0Trigger int }
	type value struct {
		inner
		Text, Binary, None []byte
		ID                 string `json:"id"`
		Took               time.Duration
		Err                error
		Rate               float64
		List               []int
		Names              map[string]int
		Any                any
		hidden             int
	}
	v := value{Text: []byte("a<b"), Binary: []byte{0xff}, Took: 5, Err: errors.New("no"), Rate: math.Inf(1), Names: map[string]int{"b": 1, "a": 2}, hidden: 1}
	require.JSONEq(t, `{"text":"a<b","binaryBase64":"/w==","none":null,"id":"","tookNanos":5,"err":"no","rate":null,"list":[],
		"names":{"a":2,"b":1},"any":null}`, string(appendJSON(nil, v, format{encText, encText})))
	require.Contains(t, string(appendJSON(nil, v, format{encHex, encHex})), `"textHex":"613c62","binaryHex":"ff"`)
	require.Contains(t, string(appendJSON(nil, &v, format{encBase64, encBase64})), `"textBase64":"YTxi"`)
	require.Equal(t, `"a<b"`, string(appendJSON(nil, "a<b", format{encText, encText})))
	require.Equal(t, "null", string(appendJSON(nil, nil, format{encText, encText})))
}

// A terminal can take the control characters above ASCII for commands, as those of ASCII.
func TestJSONHasNoControlCharacters(t *testing.T) {
	text := "a\x1b\x7f\u009b31m \u00a0é\U0001f600"
	b := appendJSON(nil, text, format{encText, encText})
	require.Equal(t, `"a\u001b\u007f\u009b31m `+"\u00a0é\U0001f600\"", string(b))
	var back string
	require.NoError(t, json.Unmarshal(b, &back))
	require.Equal(t, text, back)
}
