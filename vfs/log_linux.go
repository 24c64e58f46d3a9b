package vfs

import (
	"io"
	"io/fs"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
)

// The file systems on which a store to a mapped page cannot fail for lack of space after fallocate has reserved it, by
// the magic numbers of statfs(2). On those that copy on write (Btrfs, ZFS, F2FS), on network file systems, FUSE and
// overlays of any of them, reserved space is no promise.
const (
	magicExt4  = 0xEF53 // and ext2 and ext3, which refuse fallocate
	magicXFS   = 0x58465342
	magicTmpfs = 0x01021994
)

// headStore is the number of bytes that storeHeadLast stores last: the head and the byte after it.
const headStore = 8

var (
	// errLogCut is the error of a Write after Cut.
	errLogCut = errors.Sentinel("the log was cut: it accepts no more bytes")

	// errLogFault is the error of a Write to a page that the kernel cannot provide.
	errLogFault = errors.Sentinel("the mapped log cannot be written: another program truncated it, or the device failed")

	// errLogShort is the error if the file has lost bytes that were written.
	errLogShort = errors.Sentinel("the log is shorter than what was written to it: another program truncated it")
)

// CreateLog implements LogCreator.
func (o osFS) CreateLog(name string) (File, error) {
	f, err := o.Create(name)
	if err != nil {
		return nil, err
	}
	file := f.(*osFile)
	if !keepsReserved(file.f) {
		return file, nil
	}
	return &mappedLog{file: file}, nil
}

// keepsReserved reports whether f is on a file system of the list.
func keepsReserved(f *os.File) bool {
	var s syscall.Statfs_t
	if err := onDescriptor(f, func(fd int) error { return syscall.Fstatfs(fd, &s) }); err != nil {
		return false
	}
	switch uint32(s.Type) {
	case magicExt4, magicXFS, magicTmpfs:
		return true
	}
	return false
}

// onDescriptor calls f with the descriptor of file, again if a signal interrupts it. It returns fs.ErrClosed after
// Close.
func onDescriptor(file *os.File, f func(fd int) error) error {
	conn, err := file.SyscallConn()
	if err != nil {
		return err
	}
	var callErr error
	err = conn.Control(func(fd uintptr) {
		for {
			if callErr = f(int(fd)); callErr != syscall.EINTR {
				return
			}
		}
	})
	if err != nil {
		return fs.ErrClosed
	}
	return callErr
}

// mappedLog is a LogFile that copies into the page cache. Its space is reserved before it is mapped: otherwise a full
// disk would end the process with SIGBUS. A fault that happens all the same, because the device fails or another
// program truncates the file, is an error of Write.
//
// What cannot be reserved or mapped, because the file system, a limit of the process (RLIMIT_FSIZE, RLIMIT_AS) or a
// security policy refuses it, is appended by write(2) from then on. Write then returns the error that it would return
// without a mapping, if any.
//
// A child process does not inherit the mapping: exec removes it.
type mappedLog struct {
	file     *osFile
	size     atomic.Int64 // bytes written
	synced   atomic.Int64 // of them, those that a Sync has covered
	unmapped atomic.Int64 // what is before that is not mapped
	begun    atomic.Int64 // StartWriting was called for what is before

	mu       sync.Mutex // guards what follows, and keeps the window mapped during a Write
	reserved int64      // the file is reserved up to here, and as long
	window   []byte     // maps the file's bytes from windowAt to reserved
	windowAt int64
	zeroed   int64    // zeros have been written up to here, or beyond size if that is more; see zeroAhead
	body     [][]byte // of writeBody; the memory is reused
	plain    bool     // Write is write(2), and the file has no reserved space
	closed   bool
	err      error // no more Writes
}

var _ LogFile = (*mappedLog)(nil)

// Size implements File.
func (m *mappedLog) Size() (int64, error) {
	if _, err := m.file.Size(); err != nil { // closed
		return 0, err
	}
	return m.size.Load(), nil
}

// ReadAt implements File. What was stored in the mapping is read from the same page cache.
func (m *mappedLog) ReadAt(p []byte, off int64) (int, error) {
	written := m.size.Load() - off
	n, err := m.file.ReadAt(p, off)
	if int64(n) > written && n > 0 {
		return int(max(written, 0)), io.EOF
	}
	return n, err
}

// Write implements File.
func (m *mappedLog) Write(p []byte) (int, error) { return m.WriteParts(p) }

// WriteParts implements LogFile.
func (m *mappedLog) WriteParts(parts ...[]byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil {
		return 0, m.err
	}
	total := 0
	for _, p := range parts {
		total += len(p)
	}
	if total == 0 {
		return 0, nil
	}
	size := m.size.Load()
	n := max(total, headStore)
	if end := size + int64(n); end > m.reserved && !m.plain {
		if err := m.reserve(end); err != nil {
			return 0, err
		}
	}
	if m.plain {
		return m.writePlain(parts)
	}
	if total >= longWrite {
		if m.err = m.writeBody(size, total, parts); m.err != nil {
			return 0, m.err
		}
		n = headStore
	} else if end := size + int64(n); end > m.zeroed && size-m.synced.Load() >= aheadStep {
		if err := m.zeroAhead(size, end); err != nil {
			return 0, err
		}
	}
	dst := m.window[size-m.windowAt:][:n]
	if fault := storeHeadLast(dst, parts); fault != nil {
		m.err = m.failed("write", errLogFault)
		if !isFaultIn(dst, fault) {
			panic(fault)
		}
		return 0, m.err
	}
	m.size.Store(size + int64(total))
	return total, nil
}

// longWrite is the number of bytes from which on the system writes all of a Write but its head, so that no zeros are
// written first. On ext4 (Linux 6.18), 1 MiB took 0.27 to 0.37 ms so, and 0.43 to 0.50 ms through memory; 64 KiB took
// 20 to 30 us in both ways, and 13,000 bytes 9.5 and 4.7 us: the head's page is mapped again each time. With 24 KiB,
// loads with Buffered, which writes up to 64 KiB at once, took 2 to 5 % longer.
const longWrite = 256 << 10

// mostParts is the greatest number of parts that the system takes at once (IOV_MAX).
const mostParts = 1024

// writeBody writes the total bytes of parts, except for the head, to where they belong. Behind a head of zeros, as
// behind one that is not stored yet, any of them may be there if the process dies.
func (m *mappedLog) writeBody(size int64, total int, parts [][]byte) error {
	if err := m.checkLength(m.reserved); err != nil { // otherwise the file would become longer again
		return m.failed("write", err)
	}
	m.body = append(m.body[:0], parts...)
	defer func() {
		clear(m.body) // the caller's memory
		if len(m.body) > mostParts {
			m.body = nil
		}
	}()
	rest := after(m.body, headStore)
	for at, end := size+headStore, size+int64(total); at < end; {
		var n int
		if err := onDescriptor(m.file.f, func(fd int) (err error) {
			n, err = unix.Pwritev(fd, rest[:min(len(rest), mostParts)], at)
			return err
		}); err != nil {
			return m.failed("write", err)
		}
		at += int64(n)
		rest = after(rest, n)
	}
	return nil
}

// after returns parts without their first n bytes. It changes parts.
func after(parts [][]byte, n int) [][]byte {
	for len(parts) > 0 && n >= len(parts[0]) {
		n -= len(parts[0])
		parts = parts[1:]
	}
	if len(parts) > 0 {
		parts[0] = parts[0][n:]
	}
	return parts
}

// writePlain appends parts by write(2). A failure is final, unless the disk was full before the first byte.
func (m *mappedLog) writePlain(parts [][]byte) (written int, err error) {
	for _, p := range parts {
		n, err := m.file.Write(p)
		written += n
		m.size.Add(int64(n))
		if err != nil {
			if written > 0 || !base.IsNoSpace(err) {
				m.err = err
			}
			return written, err
		}
	}
	return written, nil
}

func (m *mappedLog) failed(op string, err error) error { return pathError(op, m.file.f.Name(), err) }

// reserve reserves and maps the file up to end at least, in the steps of base.LogReserve, or leaves it to write(2).
//
// On ext4, beside other load, a record of 130 bytes took 1,750 to 1,900 ns of CPU time by write(2) and 300 ns with
// steps of up to 1, 4 or 16 MiB; see zeroAhead for the rest. A record and its Sync took 225 µs instead of 244. Faults
// ahead of the stores (MADV_POPULATE_WRITE) did not pay: 290 to 310 ns, and a Sync writes the zeros too.
func (m *mappedLog) reserve(end int64) error {
	if err := m.checkLength(m.reserved); err != nil { // otherwise fallocate would fill the gap with zeros
		m.err = m.failed("write", err)
		return m.err
	}
	to, least := base.LogReserve(m.reserved, end), base.LeastLogReserve(end)
	err := m.allocate(to)
	if isFull(err) && least < to {
		err = m.allocate(least)
	}
	switch {
	case err == nil:
		err = m.remap()
	case isFull(err):
		return m.failed("reserve space for", err)
	case err == syscall.EIO:
		m.err = m.failed("reserve space for", err)
		return m.err
	}
	if err != nil {
		m.err = m.usePlain()
	}
	return m.err
}

// aheadStep is the number of bytes without a Sync from which on zeros are written ahead, and the size of one write.
const aheadStep = 64 << 10

var aheadZeros [aheadStep]byte

// zeroAhead writes zeros over the reserved zeros where the next bytes will be stored. The page cache takes 64 KiB at
// once for little more than one page, and keeps them together, so that one fault maps them: on ext4 (Linux 6.18) a
// record of 130 bytes takes 85 ns of CPU time instead of 290, and a write(2) for each 64 KiB of records 115.
//
// A Sync has to write these zeros, and all 64 KiB for each record afterwards. So this begins when as much has been
// written without a Sync: a store that syncs each write never comes here. If it fails, the stores still have their
// space.
func (m *mappedLog) zeroAhead(size, end int64) error {
	if err := m.checkLength(m.reserved); err != nil { // otherwise the file would become longer again
		m.err = m.failed("write", err)
		return m.err
	}
	page := int64(os.Getpagesize())
	at := max(m.zeroed, (size+page-1)/page*page) // the rest of the page of size may have bytes
	m.zeroed = min((end+aheadStep)/aheadStep*aheadStep, m.reserved)
	for ; at < m.zeroed; at += aheadStep {
		if _, err := m.file.f.WriteAt(aheadZeros[:min(aheadStep, m.zeroed-at)], at); err != nil {
			break
		}
	}
	return nil
}

func isFull(err error) bool { return err == syscall.ENOSPC || err == syscall.EDQUOT }

// allocateStep is the number of bytes that one fallocate reserves. On tmpfs, some kernels undo it at any signal, and
// onDescriptor begins again: what takes longer than the time between two signals of a profiler would never end.
const allocateStep = 4 << 20

// allocate reserves the file up to a length, and makes it as long. After an error it keeps none: ext4
// may have reserved some of them, which a full disk needs for something else.
func (m *mappedLog) allocate(to int64) error {
	for at := m.reserved; at < to; at += allocateStep {
		n := min(allocateStep, to-at)
		if err := onDescriptor(m.file.f, func(fd int) error { return syscall.Fallocate(fd, 0, at, n) }); err != nil {
			_ = m.shorten(m.reserved)
			return err
		}
	}
	m.reserved = to
	return nil
}

// length returns the length of the file. After fstat(2), Linux 6.13 and later give the next change of the file a time
// of its own, and a Sync has to write the inode, too: 234 µs for a record and its Sync instead of 160. A seek asks for
// no times. It moves the place where write(2) appends to the end of the file, where it is.
func (m *mappedLog) length() (length int64, err error) {
	err = onDescriptor(m.file.f, func(fd int) (err error) {
		length, err = syscall.Seek(fd, 0, io.SeekEnd)
		return err
	})
	return length, err
}

// checkLength returns an error if the file is shorter than want.
func (m *mappedLog) checkLength(want int64) error {
	length, err := m.length()
	if err == nil && length < want {
		err = errLogShort
	}
	return err
}

// shorten makes the file end at the given length. It never makes the file longer: the zeros would hide that it has lost
// bytes.
func (m *mappedLog) shorten(end int64) error {
	length, err := m.length()
	switch {
	case err != nil:
		return err
	case length < end:
		return errLogShort
	case length == end:
		return nil
	}
	return m.file.f.Truncate(end)
}

// remap maps the file from the page of the next byte to the end of what is reserved.
func (m *mappedLog) remap() error {
	if err := m.unmap(); err != nil {
		return err
	}
	size := m.size.Load()
	m.windowAt = size - size%int64(os.Getpagesize())
	m.unmapped.Store(m.windowAt)
	return onDescriptor(m.file.f, func(fd int) (err error) {
		m.window, err = syscall.Mmap(fd, m.windowAt, int(m.reserved-m.windowAt), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
		return err
	})
}

func (m *mappedLog) unmap() error {
	if m.window == nil {
		return nil
	}
	err := syscall.Munmap(m.window)
	m.window = nil
	m.unmapped.Store(math.MaxInt64)
	return err
}

// usePlain gives up the mapping and what is reserved: Write becomes write(2).
func (m *mappedLog) usePlain() error {
	m.plain = true
	err := m.giveBack()
	m.unmapped.Store(math.MaxInt64) // also if nothing ever was
	if err == nil {
		_, err = m.file.f.Seek(m.size.Load(), io.SeekStart)
	}
	if err != nil {
		return m.failed("write", err)
	}
	return nil
}

// giveBack unmaps the file and makes it end after the bytes written.
func (m *mappedLog) giveBack() error {
	err := m.unmap()
	if m.reserved > 0 {
		err = errors.Join(err, m.shorten(m.size.Load()))
		m.reserved = 0
	}
	return err
}

// Sync implements File. The length of the file rarely changes, so fdatasync has no metadata to write. That the file has
// all bytes is checked because a store after the end of a file that another program truncated succeeds if it is in the
// last page.
func (m *mappedLog) Sync() error {
	size := m.size.Load()
	err := onDescriptor(m.file.f, syscall.Fdatasync)
	if err == nil {
		err = m.checkLength(size)
	}
	if err != nil {
		return m.failed("sync", err)
	}
	m.synced.Store(size)
	return nil
}

// Cut implements LogFile.
func (m *mappedLog) Cut() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.cut()
}

func (m *mappedLog) cut() error {
	if m.closed {
		return m.failed("cut", fs.ErrClosed)
	}
	if m.err == nil {
		m.err = m.failed("write", errLogCut)
	}
	if err := m.giveBack(); err != nil {
		return m.failed("cut", err)
	}
	return nil
}

// Close implements File.
func (m *mappedLog) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return m.failed("close", fs.ErrClosed)
	}
	err := m.cut()
	m.closed, m.err = true, m.failed("write", fs.ErrClosed)
	return errors.Join(err, m.file.Close())
}

// storeHeadLast copies src, in parts, to the beginning of dst, which is mapped, zero, and at least headStore bytes
// long. It stores the first headStore bytes after all others. If the memory cannot be written, or src cannot be read,
// it returns the value of the panic.
func storeHeadLast(dst []byte, src [][]byte) (fault any) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() { fault = recover() }()
	var head [headStore]byte // the bytes after a src that is shorter are zero, as they are in dst
	storeBody(dst, src, &head)
	storeFence()
	storeHead(dst, &head)
	return nil
}

// storeBody stores what follows the head, which it copies to head.
func storeBody(dst []byte, src [][]byte, head *[headStore]byte) {
	at := 0
	for _, p := range src {
		if at < headStore {
			n := copy(head[at:], p)
			at, p = at+n, p[n:]
		}
		at += copy(dst[at:], p)
	}
	dst[0] = 0 // as it was: if the head is in two pages, both can be written now, and storing it does not stop between them
}

// storeFence makes other processors see the stores before it before those after it, and keeps the compiler from moving
// any across. An amd64 processor keeps stores in their order. On others, a store with release order and a load with
// acquire order after it are a barrier (Arm's manual calls that barrier-ordered-before).
func storeFence() {
	var word atomic.Uint32
	if runtime.GOARCH != "amd64" {
		word.Store(0)
	}
	word.Load()
}

// storeHead stores the first headStore bytes. On amd64 and arm64 it is one instruction, in every build: with the race
// detector or without optimizations, PutUint64 would be eight. A signal is handled before or after it. On other
// machines it may be several, and Arm lets a processor be interrupted within an instruction whose bytes cross a
// multiple of 16. A process that is killed just then leaves a part of the head, and the checksum in it shows that.
func storeHead(dst []byte, head *[headStore]byte) {
	if runtime.GOARCH == "amd64" || runtime.GOARCH == "arm64" {
		*(*uint64)(unsafe.Pointer((*[headStore]byte)(dst))) = *(*uint64)(unsafe.Pointer(head))
		return
	}
	copy(dst, head[:])
}

// isFaultIn reports whether the value of a panic is that of a fault in mem, which is mapped. A fault in the caller's
// bytes is the caller's. Some processors, such as those of s390x, tell only the page, and nothing else is in it.
func isFaultIn(mem []byte, value any) bool {
	fault, ok := value.(interface{ Addr() uintptr })
	if !ok {
		return false
	}
	begin := uintptr(unsafe.Pointer(unsafe.SliceData(mem)))
	page := begin &^ (uintptr(os.Getpagesize()) - 1)
	return fault.Addr()-page < begin-page+uintptr(len(mem))
}
