// Package files reads, replaces and removes the small files and the directories of a node.
package files

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/sievedb/sievedb/vfs"
)

// Read returns the content of a file that has at most limit bytes.
func Read(fsys vfs.FS, name string, limit int64) (b []byte, err error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	if size > limit {
		return nil, fmt.Errorf("%s has %d bytes, at most %d are expected", name, size, limit)
	}
	b = make([]byte, size)
	_, err = vfs.ReadFull(f, b, 0)
	return b, err
}

// Write makes a file with durable bytes. It replaces one that a crash left.
func Write(fsys vfs.FS, name string, b []byte) error {
	f, err := vfs.Replace(fsys, name)
	if err != nil {
		return err
	}
	if _, err = f.Write(b); err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// Replace puts a file with durable bytes in the place of another one, by way of the file temp of the same directory. If
// maybe is true after an error, the file may have been replaced.
func Replace(fsys vfs.FS, name, temp string, b []byte) (maybe bool, err error) {
	if err := Write(fsys, temp, b); err != nil {
		return false, err
	}
	if err := fsys.Rename(temp, name); err != nil {
		return true, err
	}
	return true, fsys.SyncDir(filepath.Dir(name))
}

// RemoveAll removes a file, or a directory with all that it contains. A missing one is no error.
func RemoveAll(fsys vfs.FS, name string) error {
	info, err := fsys.Lstat(name)
	if err == nil && info.IsDir() {
		var names []string
		names, err = fsys.List(name)
		for _, child := range names {
			if err := RemoveAll(fsys, filepath.Join(name, child)); err != nil {
				return err
			}
		}
	}
	if err == nil {
		err = fsys.Remove(name)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
