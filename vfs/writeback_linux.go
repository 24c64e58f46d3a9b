//go:build !arm

package vfs

import "syscall"

var (
	_ EarlyWriter = (*osFile)(nil)
	_ EarlyWriter = (*mappedLog)(nil)
)

// StartWriting implements EarlyWriter. The kernel keeps errors of the device for the next fsync: without one of its
// waiting flags, this call does not consume them. (Package syscall has no such call for arm.)
func (o *osFile) StartWriting(off, n int64) {
	conn, err := o.f.SyscallConn()
	if err != nil || n <= 0 {
		return // n = 0 would mean all of the file
	}
	const rangeWrite = 2 // SYNC_FILE_RANGE_WRITE of sync_file_range(2)
	_ = conn.Control(func(fd uintptr) { _ = syscall.SyncFileRange(int(fd), off, n, rangeWrite) })
}

// StartWriting implements EarlyWriter. What is mapped waits for a later call: the kernel protects each of its pages
// before it writes it, which interrupts the other processors. That was a third of the time of sync_file_range.
func (m *mappedLog) StartWriting(off, n int64) {
	end := min(off+n, m.unmapped.Load())
	if from := min(off, m.begun.Load()); end > from {
		m.begun.Store(end)
		m.file.StartWriting(from, end-from)
	}
}
