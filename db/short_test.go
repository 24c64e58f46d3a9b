package db

import "testing"

// sampled says that tests that try everything try a part of it: under the race detector,
// which slows them about tenfold, and with -short.
func sampled() bool { return raceEnabled || testing.Short() }

// skipInShortRace leaves a test out of short runs under the race detector. It is for tests
// that measure what one goroutine gets; what runs beside that, many other tests run.
func skipInShortRace(t *testing.T) {
	t.Helper()
	if raceEnabled && testing.Short() {
		t.Skip("measures one goroutine; runs without -short or without -race")
	}
}
