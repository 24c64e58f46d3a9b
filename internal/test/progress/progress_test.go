package main

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// follow returns what is printed of events.
func follow(events string, left int) (string, *report) {
	var out bytes.Buffer
	r := newReport(&out)
	r.left = left
	r.read(strings.NewReader(events))
	return out.String(), r
}

func TestPackagesArePrintedAsTheyEnd(t *testing.T) {
	out, r := follow(`{"Action":"start","Package":"github.com/a"}
{"Action":"run","Package":"github.com/a","Test":"TestX"}
{"Action":"run","Package":"github.com/a","Test":"TestX/sub"}
{"Action":"pass","Package":"github.com/a","Test":"TestX/sub","Elapsed":0.1}
{"Action":"pass","Package":"github.com/a","Test":"TestX","Elapsed":0.1}
{"Action":"output","Package":"github.com/a","Output":"ok  \tgithub.com/a\t0.31s\n"}
{"Action":"pass","Package":"github.com/a","Elapsed":0.31}
{"Action":"output","Package":"b","Output":"ok  \tb\t(cached)\n"}
{"Action":"pass","Package":"b"}
`, 3)
	require.Equal(t, "ok     0.3 s     1 tests  a (2 left)\nok    cached     0 tests  b (1 left)\n", out)
	require.Equal(t, 1, r.passed, "subtests are parts of a test")
	require.Empty(t, r.failed)
}

func TestFailuresArePrintedInFull(t *testing.T) {
	out, r := follow(`{"ImportPath":"c [c.test]","Action":"build-output","Output":"c.go:1: undefined\n"}
{"Action":"output","Package":"c","Output":"FAIL\tc [build failed]\n"}
{"Action":"fail","Package":"c","FailedBuild":"c [c.test]"}
{"Action":"output","Package":"a","Test":"TestX","Output":"    x_test.go:7: wrong\n"}
{"Action":"output","Package":"a","Test":"TestY","Output":"of one that passes\n"}
{"Action":"pass","Package":"a","Test":"TestY"}
{"Action":"fail","Package":"a","Test":"TestX"}
{"Action":"output","Package":"a","Test":"TestZ","Output":"panic: after 40 minutes\n"}
{"Action":"output","Package":"a","Output":"FAIL a\n"}
{"Action":"fail","Package":"a","Elapsed":1}
`, 2)
	require.Equal(t, "c.go:1: undefined\nFAIL\tc [build failed]\nFAIL   0.0 s     0 tests  c (1 left)\n"+
		"    x_test.go:7: wrong\npanic: after 40 minutes\nFAIL a\nFAIL   1.0 s     1 tests  a (0 left)\n", out)
	require.Equal(t, []string{"c", "a"}, r.failed)
}

func TestSkippedTestsAreCountedByTheirReason(t *testing.T) {
	skip := `{"Action":"output","Package":"a","Test":"TestX","Output":"    x_test.go:7: there is no browser\n"}
{"Action":"skip","Package":"a","Test":"TestX"}
`
	_, r := follow(skip+skip+`{"Action":"skip","Package":"without tests"}
{"Action":"skip","Package":"a","Test":"TestY"}
`, 1)
	require.Equal(t, map[string]int{"there is no browser": 2, "it gave no reason": 1}, r.skipped)
	var out bytes.Buffer
	r.to, r.begun = &out, time.Now()
	r.end("left out: much")
	require.Contains(t, out.String(), "skipped: 2 of: there is no browser\n")
	require.Contains(t, out.String(), "\nleft out: much\n0 tests passed in 0s (0s of processor time)\n")
}

func TestSilenceIsBrokenByALine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		r := newReport(&out)
		r.left = 5
		events, end := io.Pipe()
		time.AfterFunc(20*time.Second, func() { _ = end.Close() })
		r.read(events)
		require.Equal(t, "      5 packages left, after 15s: compiling, or a long test\n", out.String())
	})
}
