package share

import (
	"io/fs"
	"math"
	"os"
	"path"
	"runtime/debug"
	"strconv"
	"strings"
)

// unknownMemory is what a process may use if nothing says it.
const unknownMemory = 1 << 30

// ProcessMemory returns how many bytes the process may use now.
func ProcessMemory() int64 { return processMemory(os.DirFS("/"), debug.SetMemoryLimit(-1)) }

// DefaultTableMemory returns the memory that the open tables of a store may use beside its blocks: an eighth of what
// the process may use, within bounds. At 2.6 bytes a key the least is sufficient for 50 million keys.
func DefaultTableMemory() int64 { return min(max(ProcessMemory()/8, 128<<20), 1<<30) }

// processMemory returns how many bytes the process may use: the least of the machine's memory, the limits of its
// control groups (versions 1 and 2), and GOMEMLIMIT.
func processMemory(root fs.FS, goLimit int64) int64 {
	least := int64(math.MaxInt64)
	take := func(n int64, ok bool) {
		if ok && n > 0 {
			least = min(least, n)
		}
	}
	take(goLimit, true)
	text, _ := fs.ReadFile(root, "proc/meminfo")
	for line := range strings.Lines(string(text)) {
		if kib, ok := strings.CutPrefix(line, "MemTotal:"); ok {
			n, ok := number64(strings.TrimSuffix(strings.TrimSpace(kib), " kB"))
			take(n<<10, ok)
		}
	}
	text, _ = fs.ReadFile(root, "proc/self/cgroup")
	for line := range strings.Lines(string(text)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3) // such as 0::/system.slice/sieved.service
		if len(parts) != 3 {
			continue
		}
		dir, file := "sys/fs/cgroup", "memory.max"
		if parts[1] == "memory" {
			dir, file = "sys/fs/cgroup/memory", "memory.limit_in_bytes"
		} else if parts[1] != "" {
			continue
		}
		for at := path.Clean("/" + parts[2]); ; at = path.Dir(at) { // a group is bound by those around it too
			text, err := fs.ReadFile(root, path.Join(dir, at, file))
			n, ok := number64(strings.TrimSpace(string(text)))
			take(n, ok && err == nil)
			if at == "/" {
				break
			}
		}
	}
	if least == math.MaxInt64 {
		return unknownMemory
	}
	return least
}

func number64(s string) (int64, bool) {
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil
}
