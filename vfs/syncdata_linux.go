package vfs

import (
	"os"
	"syscall"
)

// syncData makes the bytes of f durable, and what is needed to read them. After a new link to a file
// that is durable, fsync would wait for the journal, and fdatasync does not.
func syncData(f *os.File) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var syncErr error
	err = conn.Control(func(fd uintptr) {
		for {
			if syncErr = syscall.Fdatasync(int(fd)); syncErr != syscall.EINTR {
				return
			}
		}
	})
	if err == nil && syncErr != nil {
		err = &os.PathError{Op: "sync", Path: f.Name(), Err: syncErr}
	}
	return err
}
