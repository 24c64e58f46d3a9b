//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package vfs

import "os"

// lockFamilies uses flock alone, which excludes programs that use either kind of lock: on these systems flock and fcntl
// locks of a file are in one list and conflict unless their owner is the same (lf_getblock in kern_lockf.c of FreeBSD
// and macOS). The owner of a flock is the open file and that of an fcntl lock is the process, so our first lock would
// refuse our second.
func lockFamilies(f *os.File, shared bool) error { return flockLock(f, shared) }

func unlockFamilies(f *os.File) { _ = flockUnlock(f) }
