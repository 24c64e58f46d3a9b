package bench

import (
	"os"
	"strconv"
	"strings"
)

// Memory is a process's resident memory in bytes, as Linux counts it. All are 0 on other systems.
type Memory struct {
	Peak, Now uint64
	// Anonymous and File are parts of Now: the process's own memory, and pages of mapped files.
	Anonymous, File uint64
}

// Resident returns this process's memory.
func Resident() Memory {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return Memory{}
	}
	field := func(name string) uint64 { return kibField(string(status), name) }
	return Memory{Peak: field("VmHWM:"), Now: field("VmRSS:"), Anonymous: field("RssAnon:"), File: field("RssFile:")}
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
