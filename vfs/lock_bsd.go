//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package vfs

import "os"

// lockFamilies takes flock alone, which excludes both families of rivals: on
// these systems flock and fcntl locks of a file are kept in one list and
// conflict with each other unless their owner is the same (lf_getblock in
// kern_lockf.c of FreeBSD and macOS). flock's owner is the open file and fcntl's
// the process, so taking both would be refused by our own first lock.
func lockFamilies(f *os.File, shared bool) error { return flockLock(f, shared) }

func unlockFamilies(f *os.File) { _ = flockUnlock(f) }
