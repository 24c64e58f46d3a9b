package vfs_test

import (
	"fmt"
	"sync/atomic"

	"github.com/sievedb/sievedb/vfs"
)

// countingFS counts the bytes that are read from files. It embeds another file system, and
// inherits all methods that it does not declare itself.
type countingFS struct {
	vfs.FS
	bytesRead atomic.Int64
}

func (c *countingFS) Open(name string) (vfs.File, error) {
	f, err := c.FS.Open(name)
	if err != nil {
		return nil, err
	}
	return countingFile{f, &c.bytesRead}, nil
}

type countingFile struct {
	vfs.File
	bytesRead *atomic.Int64
}

func (f countingFile) ReadAt(p []byte, off int64) (int, error) {
	n, err := f.File.ReadAt(p, off)
	f.bytesRead.Add(int64(n))
	return n, err
}

// A wrapper around a file system sees all reads of its files: those of a store, if it is its Options.FS.
func Example() {
	fsys := &countingFS{FS: vfs.NewMem()}
	f, err := fsys.Create("file")
	if err != nil {
		panic(err)
	}
	if _, err := f.Write(make([]byte, 1000)); err != nil {
		panic(err)
	}
	if err := f.Close(); err != nil {
		panic(err)
	}
	if f, err = fsys.Open("file"); err != nil {
		panic(err)
	}
	if _, err := f.ReadAt(make([]byte, 100), 500); err != nil {
		panic(err)
	}
	fmt.Println("bytes read:", fsys.bytesRead.Load())
	if err := f.Close(); err != nil {
		panic(err)
	}
	// Output: bytes read: 100
}
