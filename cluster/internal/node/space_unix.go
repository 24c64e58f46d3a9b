//go:build linux || darwin || freebsd

package node

import "syscall"

// freeBytes returns the number of bytes that this process may still write to the file system of a directory.
func freeBytes(dir string) (int64, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return 0, err
	}
	return int64(s.Bavail) * int64(s.Bsize), nil
}
