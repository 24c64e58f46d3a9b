//go:build !race

package soak

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
)

// residentSlack is the allowed growth of resident memory in a short run. The pages of the
// program itself become resident only when they are first executed.
const residentSlack = 8 << 20

// residentBytes returns VmRSS on Linux. On other systems it returns the memory that the runtime
// obtained from the system and has not released.
func residentBytes(m *runtime.MemStats) int64 {
	status, err := os.ReadFile("/proc/self/status")
	if err == nil {
		if _, rest, ok := bytes.Cut(status, []byte("VmRSS:")); ok {
			var kib int64
			if _, err := fmt.Sscan(string(rest), &kib); err == nil {
				return kib << 10
			}
		}
	}
	return int64(m.Sys - m.HeapReleased)
}
