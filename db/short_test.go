package db

import "testing"

// sampled reports whether exhaustive tests try only a sample: with -short, and under the race
// detector, which slows them about tenfold.
func sampled() bool { return raceEnabled || testing.Short() }

// skipInShortRace skips a test in short runs under the race detector. It is for tests that measure one
// goroutine; many other tests cover the concurrent work.
func skipInShortRace(t *testing.T) {
	t.Helper()
	if raceEnabled && testing.Short() {
		t.Skip("measures one goroutine; runs without -short or without -race")
	}
}
