//go:build !linux

package main

import (
	"errors"
	"io/fs"
)

// These figures are available on Linux only.

func cpuSeconds() float64 { return 0 }

func readIO() (ioCounts, bool) { return ioCounts{}, false }

func waitsForDevice() bool { return false }

func dropPageCache(string) error {
	return errors.New("dropping the page cache is supported on Linux only")
}

func allocated(info fs.FileInfo) uint64 { return uint64(info.Size()) }
