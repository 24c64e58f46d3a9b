package vfs

import (
	"os"
	"syscall"

	"github.com/sievedb/sievedb/internal/base/errors"
)

// ofdSetLock is F_OFD_SETLK of fcntl(2), the same on every architecture; package syscall defines it only on some.
const ofdSetLock = 37

// lockFamilies acquires both kinds of locks on one descriptor, because other programs use one or the other: LevelDB,
// Pebble and RocksDB use fcntl, goleveldb uses flock. On Linux, local file systems keep the two kinds separate
// (flock(2), notes), so our own two locks do not conflict. Over NFS and SMB both become byte-range locks of a server,
// which decides what they exclude.
//
// The fcntl lock belongs to the open file description, not to the process. It conflicts with ordinary fcntl locks all
// the same, and it is not lost when this process closes another descriptor of the file.
func lockFamilies(f *os.File, shared bool) error {
	err := fcntlLock(f, ofdSetLock, shared)
	if errors.Is(err, syscall.EINVAL) {
		// Linux before 3.15, and sandboxes that emulate it, have no such locks.
		err = fcntlLock(f, syscall.F_SETLK, shared)
	}
	if err != nil {
		return err
	}
	return flockLock(f, shared)
}

// unlockFamilies releases both locks. Errors are ignored: they mean that there was no lock.
func unlockFamilies(f *os.File) {
	_ = fcntlUnlock(f, ofdSetLock)
	_ = flockUnlock(f)
}
