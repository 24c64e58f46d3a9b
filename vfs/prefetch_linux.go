package vfs

import "golang.org/x/sys/unix"

var _ Prefetcher = (*osFile)(nil)

// prefetchPiece is how many bytes one call of fadvise(2) requests. The kernel reads at most the larger of the device's
// read-ahead setting and its largest request, without saying so: 128 KiB is the usual setting.
const prefetchPiece = 128 << 10

// Resident implements Prefetcher.
func (o *osFile) Resident(off, n int64) (cached int64, evicted, ok bool) {
	if off < 0 || n <= 0 {
		return 0, false, false
	}
	s, err := o.cacheStat(off, n)
	return min(int64(s.Cache)*int64(unix.Getpagesize()), n), s.Evicted > 0, err == nil
}

// cacheStat is cachestat(2), of Linux 6.5, for n bytes at offset off.
func (o *osFile) cacheStat(off, n int64) (s unix.Cachestat_t, err error) {
	err = unix.EBADF // if the file is closed
	o.control(func(fd int) {
		err = unix.Cachestat(uint(fd), &unix.CachestatRange{Off: uint64(off), Len: uint64(n)}, &s, 0)
	})
	return s, err
}

// Prefetch implements Prefetcher.
func (o *osFile) Prefetch(off, n int64) {
	o.control(func(fd int) {
		for end := off + n; off < end; off += prefetchPiece {
			if unix.Fadvise(fd, off, min(prefetchPiece, end-off), unix.FADV_WILLNEED) != nil {
				return
			}
		}
	})
}
