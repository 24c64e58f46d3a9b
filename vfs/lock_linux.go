package vfs

import (
	"os"
	"syscall"

	"github.com/sievedb/sievedb/internal/errors"
)

// ofdSetLock is F_OFD_SETLK of fcntl(2), the same on every architecture; package
// syscall names it on some only.
const ofdSetLock = 37

// lockFamilies takes both families on one descriptor, for rivals know one or the
// other: LevelDB, Pebble and RocksDB use fcntl, goleveldb uses flock. On Linux
// local file systems keep the two apart (flock(2), notes), so they do not meet
// each other here. Over NFS and SMB both become byte-range locks of a server,
// and what they exclude is the server's affair.
//
// The fcntl lock is an open file description's, not the process's: it conflicts
// with the plain ones all the same, and does not vanish when some other
// descriptor of the file is closed in this process.
func lockFamilies(f *os.File, shared bool) error {
	err := fcntlLock(f, ofdSetLock, shared)
	if errors.Is(err, syscall.EINVAL) {
		// Linux before 3.15, and sandboxes that imitate it, have no such locks.
		err = fcntlLock(f, syscall.F_SETLK, shared)
	}
	if err != nil {
		return err
	}
	return flockLock(f, shared)
}

// unlockFamilies gives both back. Where a call fails there was no such lock.
func unlockFamilies(f *os.File) {
	_ = fcntlUnlock(f, ofdSetLock)
	_ = flockUnlock(f)
}
