package soak

import (
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
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

// descriptors counts the open ones, itself included, where the system has a
// directory of them; elsewhere it is 0.
func descriptors() int64 {
	for _, dir := range []string{"/proc/self/fd", "/dev/fd"} {
		if entries, err := os.ReadDir(dir); err == nil {
			return int64(len(entries))
		}
	}
	return 0
}

// goroutinesOfTheStore returns the stacks of those that package db started. One
// that has said that it is done may take a moment to go, so they are looked at
// until they are none, or often enough.
func goroutinesOfTheStore() []string {
	var left []string
	for range 1000 {
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		left = slices.DeleteFunc(strings.Split(string(stacks), "\n\n"), func(g string) bool {
			return !strings.Contains(g, "created by github.com/sievedb/sievedb/db.")
		})
		if len(left) == 0 {
			break
		}
		runtime.Gosched()
	}
	return left
}
