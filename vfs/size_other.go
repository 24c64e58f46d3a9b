//go:build !windows

package vfs

import "os"

func fileSize(f *os.File) (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, renamed("size", err)
	}
	return info.Size(), nil
}
