package vfs

import (
	"io"
	"math"

	"golang.org/x/sys/unix"
)

var (
	_ Sharer        = (*osFile)(nil)
	_ CacheFollower = (*osFile)(nil)
)

// shareUnit is the unit of sharing in bytes. File systems share only whole blocks, and the
// largest blocks of those that share are 64 KiB.
const shareUnit = 64 << 10

// ShareFrom implements Sharer with ioctl_ficlonerange(2), which XFS, Btrfs and others support, and ext4 does not. If
// src is cached in memory, the new file is read ahead: the two files share blocks of the device, but no memory.
func (o *osFile) ShareFrom(src File, n int64) (int64, error) {
	from, ok := src.(*osFile)
	if n -= n % shareUnit; !ok || n <= 0 || o.reading {
		return 0, nil
	}
	err := error(unix.EBADF) // if a file is closed
	from.control(func(in int) {
		o.control(func(out int) {
			err = unix.IoctlFileCloneRange(out, &unix.FileCloneRange{Src_fd: int64(in), Src_length: uint64(n)})
			if err == nil {
				_, err = unix.Seek(out, n, io.SeekStart)
			} else if size, serr := o.Size(); serr == nil && size == 0 {
				n, err = 0, nil // the bytes can still be written
			}
		})
	})
	if err != nil {
		return 0, pathError("write", o.f.Name(), err)
	}
	if n > 0 && from.inMemory() {
		o.control(func(out int) { _ = unix.Fadvise(out, 0, n, unix.FADV_WILLNEED) })
	}
	return n, nil
}

// FollowCache implements CacheFollower.
func (o *osFile) FollowCache(src File) {
	from, ok := src.(*osFile)
	o.uncached = ok && !from.inMemory()
}

// inMemory reports whether at least half of the file is in the page cache. It returns true if that is unknown.
func (o *osFile) inMemory() bool {
	size, err := o.Size()
	if err != nil {
		return true
	}
	s, err := o.cacheStat(0, math.MaxInt64)
	return err != nil || s.Cache >= uint64(size)/2/uint64(unix.Getpagesize())
}

// writeUncached is Write for bytes that should not stay in the page cache.
func (o *osFile) writeUncached(p []byte) (n int, err error) {
	for n < len(p) {
		m := 0
		o.control(func(fd int) {
			m, err = unix.Pwritev2(fd, [][]byte{p[n:]}, -1, unix.RWF_DONTCACHE) // Linux 6.14
		})
		switch {
		case err == unix.EINTR:
		case m <= 0: // unsupported or failed: Write as usual, which reports any error
			o.uncached = false
			m, err := o.f.Write(p[n:])
			return n + m, err
		default:
			n += m
		}
	}
	return n, nil
}

// control calls f with the file's descriptor, unless the file is closed.
func (o *osFile) control(f func(fd int)) {
	if conn, err := o.f.SyscallConn(); err == nil {
		_ = conn.Control(func(fd uintptr) { f(int(fd)) })
	}
}
