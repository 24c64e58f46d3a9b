package bench

import (
	"os"
	"strconv"
	"strings"
)

// Memory is a process's resident memory in bytes, as Linux counts it. Both are 0 on other systems.
type Memory struct{ Peak, Now uint64 }

// Resident returns this process's memory.
func Resident() Memory {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return Memory{}
	}
	return Memory{Peak: kibField(string(status), "VmHWM:"), Now: kibField(string(status), "VmRSS:")}
}

// ResetPeak resets the peak that Resident returns, if the system supports it.
func ResetPeak() {
	f, err := os.OpenFile("/proc/self/clear_refs", os.O_WRONLY, 0)
	if err != nil {
		return
	}
	_, _ = f.WriteString("5")
	_ = f.Close()
}

func kibField(text, name string) uint64 {
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, name); ok {
			kib, _ := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
			return kib << 10
		}
	}
	return 0
}
