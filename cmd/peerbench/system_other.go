//go:build !linux

package main

import (
	"errors"
	"io/fs"
)

// These are known on Linux alone.

func cpuSeconds() float64 { return 0 }

func readIO() (ioCounts, bool) { return ioCounts{}, false }

func dropPageCache(string) error {
	return errors.New("the page cache can be dropped on Linux alone")
}

func allocated(info fs.FileInfo) uint64 { return uint64(info.Size()) }
