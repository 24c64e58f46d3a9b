//go:build !linux

package db

import "testing"

// Only Linux can mount a real disk of a known size for a test.
func TestFillsOfARealDisk(t *testing.T) {
	count := *fillCount
	if sampled() {
		count = min(count, 2)
	}
	t.Logf("NO REAL DISK: mounting one needs Linux; %d fills of the simulated disk instead", count)
	runFills(t, simulatedDisk(), count)
}
