package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestSlotsAreThoseOfRedis(t *testing.T) {
	// The check value of CRC-16/XMODEM, modulo 16384.
	if got := slotOf([]byte("123456789")); got != 0x31c3 {
		t.Fatalf("the slot is %#x, want 0x31c3", got)
	}
}

func TestTheTableReplacesWhatIsBetweenTheMarkers(t *testing.T) {
	name := filepath.Join(t.TempDir(), "page.md")
	for _, text := range []string{"one", "two"} {
		if err := replaceBetweenMarkers(name, text); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if want := "# How fast a cluster is\n\n" + beginMarker + "\ntwo\n" + endMarker + "\n"; string(got) != want {
		t.Fatalf("got %q, want %q", got, want)
	}
	if err := os.WriteFile(name, []byte("no markers"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := replaceBetweenMarkers(name, "three"); err == nil {
		t.Fatal("a page without markers was changed")
	}
}

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
