// Package race tells tests whether the race detector is on. Only tests import it.
package race

import "testing"

// Sampled reports whether exhaustive tests try only a sample: with -short, and under the race
// detector, which slows them about tenfold.
func Sampled() bool { return Enabled || testing.Short() }

// SkipInShort skips a test in short runs under the race detector. It is for tests that measure one
// goroutine; many other tests cover the concurrent work.
func SkipInShort(t *testing.T) {
	t.Helper()
	if Enabled && testing.Short() {
		t.Skip("measures one goroutine; runs without -short or without -race")
	}
}

// SkipAllocations skips a test that counts allocations under the race detector, which allocates too.
func SkipAllocations(t *testing.T) {
	t.Helper()
	if Enabled {
		t.Skip("the race detector allocates too")
	}
}
