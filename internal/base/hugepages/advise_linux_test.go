package hugepages

import (
	"bytes"
	"fmt"
	"os"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/test/result"
)

// advised counts the bytes between two addresses that are advised to use large pages, the flag
// "hg" of proc_pid_smaps(5).
func advised(t *testing.T, from, to uintptr) (n uintptr) {
	text, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Log("not available here: ", err)
		return 0
	}
	var start, end uintptr
	for line := range bytes.Lines(text) {
		if fields := bytes.Fields(line); !bytes.HasSuffix(fields[0], []byte(":")) {
			require.NoError(t, result.Err(fmt.Sscanf(string(fields[0]), "%x-%x", &start, &end)))
		} else if low, high := max(start, from), min(end, to); low < high && bytes.HasPrefix(line, []byte("VmFlags:")) && bytes.Contains(line, []byte(" hg")) {
			n += high - low
		}
	}
	return n
}

// Advised memory is on large pages again, all of it, whenever one byte of it is in use: memory
// that the heap gets back must not stay advised.
func TestFreedMemoryIsNotAdvised(t *testing.T) {
	arena := make([]byte, 5*size)
	start := uintptr(unsafe.Pointer(&arena[0]))
	end := start + uintptr(len(arena))
	Want(arena)
	if setting() == "madvise" {
		require.GreaterOrEqual(t, advised(t, start, end), uintptr(4*size))
	}
	clear(arena)
	Done(arena)
	require.Zero(t, advised(t, start, end))

	Count(arena) // as if the arena's memory had blocks of a cache
	waitUntilIdle(&heap)
	require.Zero(t, advised(t, start, end))
	pieces := make([][]byte, 4000)
	for i := range pieces {
		pieces[i] = make([]byte, 4096)
		Count(pieces[i])
	}
	waitUntilIdle(&heap)
	for i := 0; i < len(pieces); i += 100 {
		p := pieces[i]
		at := uintptr(unsafe.Pointer(&p[0]))
		require.Zero(t, advised(t, at, at+uintptr(len(p))))
	}
}
