package soak

import (
	"os"
	"runtime"
	"runtime/debug"

	"github.com/sievedb/sievedb/internal/test/fixture"
)

// sample is the resources of this process after a session, and the size of the directory if the
// session ended with Close.
type sample struct {
	resident, heap, descriptors int64
	space                       occupancy
}

func takeSample() sample {
	debug.FreeOSMemory() // collects first
	return takeSampleAsIs()
}

// takeSampleAsIs does without a collection.
func takeSampleAsIs() sample {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return sample{resident: residentBytes(&m), heap: int64(m.HeapAlloc), descriptors: descriptors()}
}

// descriptors counts the open ones, itself included, where the system has a directory of them; elsewhere it is 0.
func descriptors() int64 {
	for _, dir := range []string{"/proc/self/fd", "/dev/fd"} {
		if entries, err := os.ReadDir(dir); err == nil {
			return int64(len(entries))
		}
	}
	return 0
}

// goroutinesOfTheStore returns the stacks of those that the store started: all of them begin in base.Go.
func goroutinesOfTheStore() []string {
	return fixture.Goroutines("created by github.com/sievedb/sievedb/internal/base.Go")
}
