package vfs

import (
	"io"
	"os"
	"runtime/debug"
	"sync/atomic"
	"syscall"
	"unsafe"

	"github.com/sievedb/sievedb/internal/base/errors"
)

// The file systems on which a store to a mapped page cannot fail for lack of space once fallocate has reserved it, by
// the magic numbers of statfs(2). On those that copy on write (Btrfs, ZFS), on network file systems, FUSE and overlays
// of any of them, reserved space is no promise.
const (
	magicExt4  = 0xEF53 // and ext2 and ext3, which refuse fallocate
	magicXFS   = 0x58465342
	magicTmpfs = 0x01021994
)

// The steps in which a log is reserved. They double, so that a store that writes little uses little.
const (
	minReserve = 64 << 10
	maxReserve = 4 << 20
)

// errCut is the error of a Write after Cut.
var errCut = errors.Sentinel("the log was cut: it takes no more bytes")

// errLogFault is the error of a Write to a page that the kernel cannot provide.
var errLogFault = errors.Sentinel("the mapped log cannot be written: another program has cut it, or the device fails")

// CreateLog implements LogCreator.
func (o osFS) CreateLog(name string) (File, error) {
	f, err := o.Create(name)
	if err != nil {
		return nil, err
	}
	plain := f.(*osFile)
	if !keepsReserved(plain.f) {
		return plain, nil
	}
	return &mappedLog{osFile: plain}, nil
}

// keepsReserved reports whether f is on a file system of the list.
func keepsReserved(f *os.File) bool {
	var s syscall.Statfs_t
	var statErr error
	conn, err := f.SyscallConn()
	if err == nil {
		err = conn.Control(func(fd uintptr) { statErr = syscall.Fstatfs(int(fd), &s) })
	}
	if err != nil || statErr != nil {
		return false
	}
	switch uint32(s.Type) {
	case magicExt4, magicXFS, magicTmpfs:
		return true
	}
	return false
}

// mappedLog is a LogFile that copies into the page cache. Its space is reserved before it is mapped: otherwise a full
// disk would end the process with SIGBUS. A fault that comes all the same, because the device fails or somebody cuts
// the file, is an error of Write.
type mappedLog struct {
	*osFile
	size     atomic.Int64 // bytes written
	reserved int64        // length of the file
	window   []byte       // maps the file's bytes from windowAt to reserved
	windowAt int64
	plain    bool  // the file system cannot reserve: Write is write(2)
	err      error // no more Writes
}

var _ LogFile = (*mappedLog)(nil)

// Size implements File.
func (m *mappedLog) Size() (int64, error) {
	if _, err := m.osFile.Size(); err != nil { // of a closed file
		return 0, err
	}
	return m.size.Load(), nil
}

// ReadAt implements File.
func (m *mappedLog) ReadAt(p []byte, off int64) (int, error) {
	left := m.size.Load() - off
	if off < 0 || left >= int64(len(p)) {
		return m.osFile.ReadAt(p, off)
	}
	n, err := m.osFile.ReadAt(p[:max(left, 0)], off)
	if err == nil {
		err = io.EOF
	}
	return n, err
}

// Write implements File.
func (m *mappedLog) Write(p []byte) (int, error) {
	if m.err != nil {
		return 0, m.err
	}
	size := m.size.Load()
	if err := m.reserve(size + int64(len(p))); err != nil {
		return 0, err
	}
	if m.plain {
		n, err := m.osFile.Write(p)
		m.size.Add(int64(n))
		return n, err
	}
	if len(p) == 0 {
		return 0, nil
	}
	if err := storeHeadLast(m.window[size-m.windowAt:][:len(p)], p); err != nil {
		m.err = pathError("write", m.f.Name(), err)
		return 0, m.err
	}
	m.size.Add(int64(len(p)))
	return len(p), nil
}

// reserve makes sure that the file is reserved and mapped up to end.
func (m *mappedLog) reserve(end int64) error {
	if end <= m.reserved || m.plain {
		return nil
	}
	from := m.reserved
	step := min(max(from, minReserve), maxReserve)
	err := m.allocate(from, max(step, end-from))
	if err == syscall.ENOSPC && end-from < step { // the least that is needed
		err = m.allocate(from, end-from)
	}
	switch {
	case from == 0 && (err == syscall.EOPNOTSUPP || err == syscall.ENOSYS):
		m.plain = true
		return nil
	case err != nil:
		return pathError("reserve space for", m.f.Name(), err)
	}
	return m.remap()
}

// allocate reserves n bytes from off on, rounded up to whole pages, and makes the file as long.
func (m *mappedLog) allocate(off, n int64) error {
	page := int64(os.Getpagesize())
	n = (n + page - 1) / page * page
	conn, err := m.f.SyscallConn()
	if err != nil {
		return err
	}
	var callErr error
	err = conn.Control(func(fd uintptr) {
		for {
			if callErr = syscall.Fallocate(int(fd), 0, off, n); callErr != syscall.EINTR {
				return
			}
		}
	})
	if err == nil {
		err = callErr
	}
	if err == nil {
		m.reserved = off + n
	}
	return err
}

// remap maps the file from the page of the next byte to the end of what is reserved.
func (m *mappedLog) remap() error {
	if err := m.unmap(); err != nil {
		return err
	}
	size := m.size.Load()
	at := size - size%int64(os.Getpagesize())
	conn, err := m.f.SyscallConn()
	if err != nil {
		return err
	}
	var callErr error
	err = conn.Control(func(fd uintptr) {
		m.window, callErr = syscall.Mmap(int(fd), at, int(m.reserved-at), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	})
	if err == nil {
		err = callErr
	}
	if err != nil {
		m.err = pathError("map", m.f.Name(), err)
		return m.err
	}
	m.windowAt = at
	return nil
}

func (m *mappedLog) unmap() error {
	if m.window == nil {
		return nil
	}
	err := syscall.Munmap(m.window)
	m.window = nil
	if err != nil {
		return pathError("unmap", m.f.Name(), err)
	}
	return nil
}

// Sync implements File. The length of the file rarely changes, so fdatasync has no metadata to write.
func (m *mappedLog) Sync() error { return renamed("sync", syncData(m.f)) }

// Cut implements LogFile.
func (m *mappedLog) Cut() error {
	if m.err == nil {
		m.err = pathError("write", m.f.Name(), errCut)
	}
	err := m.unmap()
	if size := m.size.Load(); m.reserved > size {
		if terr := m.f.Truncate(size); terr != nil {
			return errors.Join(err, renamed("cut", terr))
		}
		m.reserved = size
	}
	return err
}

// Close implements File.
func (m *mappedLog) Close() error { return errors.Join(m.Cut(), m.osFile.Close()) }

// storeHeadLast copies src to dst, which is as long and mapped, and the last byte of the head after all others. It
// returns an error if the memory cannot be written.
func storeHeadLast(dst, src []byte) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if value := recover(); value != nil {
			if _, ok := value.(interface{ Addr() uintptr }); !ok {
				panic(value)
			}
			err = errLogFault
		}
	}()
	head := min(LogHead, len(src))
	copy(dst[head:], src[head:])
	copy(dst[:head-1], src[:head-1])
	storeByte(&dst[head-1], src[head-1])
	return nil
}

// storeByte stores b at p after all stores before it, also as other processors see it. p is in a page of its own
// alignment: the aligned word around it is in the same page.
func storeByte(p *byte, b byte) {
	word := (*[4]byte)(unsafe.Pointer(uintptr(unsafe.Pointer(p)) &^ 3))
	value := *word
	value[uintptr(unsafe.Pointer(p))&3] = b
	atomic.StoreUint32((*uint32)(unsafe.Pointer(word)), *(*uint32)(unsafe.Pointer(&value)))
}
