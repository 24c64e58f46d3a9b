package damage

import (
	"time"
)

// hangs is far more than any test of a hostile file needs, on any machine.
const hangs = 2 * time.Minute

// Watch ends the process with a message that says what hangs, unless the returned function is called within two
// minutes. A test without it would end with the time limit of the package, which says nothing.
func Watch(what string) (stop func() bool) {
	timer := time.AfterFunc(hangs, func() { panic(what + " hangs") })
	return timer.Stop
}

// MemoryBound returns how many bytes may be allocated to open and read files of size bytes.
func MemoryBound(size int) uint64 { return 64<<20 + 8*uint64(size) }

// WriteBound returns how many bytes one operation on forged files of size bytes may write. It holds for files that a
// Forge makes, whose blocks are not the worst bombs possible: see SECURITY.md.
func WriteBound(size int) uint64 { return 64<<20 + 16*uint64(size) }
