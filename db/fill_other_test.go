//go:build !linux

package db

import "testing"

// A real disk of a known size is mounted on Linux alone.
func TestFillsOfARealDisk(t *testing.T) {
	count := *fillCount
	if sampled() {
		count = min(count, 2)
	}
	t.Logf("NO REAL DISK: it takes Linux; %d fills of the simulated one instead", count)
	runFills(t, simulatedDisk(), count)
}
