//go:build race

package soak

import "runtime"

// residentSlack is the allowed growth of resident memory in a short run.
const residentSlack = 8 << 20

// residentBytes returns the memory that the runtime obtained from the system and has not released.
// VmRSS is of no use here: it includes the shadow memory of the race detector, several times the
// heap, which the detector frees all together from time to time. That hides a leak.
func residentBytes(m *runtime.MemStats) int64 {
	return int64(m.Sys - m.HeapReleased)
}
