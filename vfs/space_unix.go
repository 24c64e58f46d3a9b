//go:build linux || darwin

package vfs

import "syscall"

// FreeBytes implements SpaceReporter with statfs(2).
func (osFS) FreeBytes(dir string) (uint64, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return 0, pathError("statfs", dir, err)
	}
	return s.Bavail * uint64(s.Bsize), nil
}
