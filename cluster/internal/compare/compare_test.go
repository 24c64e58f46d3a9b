package main

import (
	"strings"
	"testing"
	"time"
)

func TestTheTableHasMedians(t *testing.T) {
	r := newResults()
	for _, n := range []float64{30, 10, 20} {
		r.add("s", workload{writes, 1}, figures{perSecond: n, p50: time.Millisecond})
		r.add("s", workload{reads, 1}, figures{perSecond: n})
	}
	if table := r.table(config{clients: []int{1}}); !strings.Contains(table, "| s | 1 | 20 | 1000 µs |") {
		t.Fatal(table)
	}
}
