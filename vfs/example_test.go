package vfs_test

import (
	"fmt"
	"sync/atomic"

	"github.com/sievedb/sievedb/db"
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

// A wrapper around a file system sees all reads of the store.
func Example() {
	fsys := &countingFS{FS: vfs.NewMem()}
	store, err := db.Open("example", &db.Options{FS: fsys})
	if err != nil {
		panic(err)
	}
	for i := range 1000 {
		if err := store.Put(fmt.Appendf(nil, "key%03d", i), make([]byte, 100), db.NoSync); err != nil {
			panic(err)
		}
	}
	if err := store.Flush(); err != nil {
		panic(err)
	}

	before := fsys.bytesRead.Load()
	if _, err := store.Get([]byte("key500")); err != nil {
		panic(err)
	}
	fmt.Println("a lookup reads less than the table:", fsys.bytesRead.Load()-before < 20_000)

	before = fsys.bytesRead.Load()
	if _, err := store.Get([]byte("absent")); err != db.ErrNotFound {
		panic(err)
	}
	fmt.Println("bytes read for an absent key:", fsys.bytesRead.Load()-before)
	if err := store.Close(); err != nil {
		panic(err)
	}
	// Output:
	// a lookup reads less than the table: true
	// bytes read for an absent key: 0
}
