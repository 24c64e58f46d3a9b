package vfs

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/sievedb/sievedb/internal/base/errors"
)

// NewOSForReading is NewOS for programs that only read the files that are there: a symbolic link to a plain file counts
// as that file in Open, Lstat, SyncFile, Link and a shared Lock. A lock is then that of the file which the link leads
// to, which it neither makes nor changes; if there is none, Lock succeeds without a lock. Links to anything but a plain
// file are refused as by NewOS. So is writing: Create and an exclusive Lock follow no link, and Remove and Rename
// change the link itself.
func NewOSForReading(mode fs.FileMode) FS { return readingFS{osFS{mode.Perm()}} }

type readingFS struct{ osFS }

// leadsTo returns the path of the plain file that the link name leads to, "" if name is no such link. gone says that it
// is a link that leads nowhere.
func leadsTo(name string) (path string, gone bool) {
	info, err := os.Lstat(name)
	if err != nil || info.Mode()&fs.ModeSymlink == 0 {
		return "", false
	}
	path, err = filepath.EvalSymlinks(name)
	if err != nil {
		return "", errors.Is(err, fs.ErrNotExist)
	}
	if info, err := os.Lstat(path); err != nil || !info.Mode().IsRegular() {
		return "", errors.Is(err, fs.ErrNotExist)
	}
	return path, false
}

// followed returns the file that name leads to, or name itself.
func followed(name string) string {
	if path, _ := leadsTo(name); path != "" {
		return path
	}
	return name
}

func (r readingFS) Open(name string) (File, error) {
	f, err := r.osFS.Open(name)
	if err == nil || !errors.Is(err, ErrSymlink) {
		return f, err
	}
	return r.osFS.Open(followed(name))
}

func (r readingFS) Lstat(name string) (fs.FileInfo, error) {
	info, err := r.osFS.Lstat(name)
	if err != nil || info.Mode()&fs.ModeSymlink == 0 {
		return info, err
	}
	return r.osFS.Lstat(followed(name))
}

func (r readingFS) SyncFile(name string) error { return r.osFS.SyncFile(followed(name)) }

// Link makes a link to the file: a second name of a symbolic link would lead to somewhere else in another directory.
func (r readingFS) Link(oldname, newname string) error {
	return r.osFS.Link(followed(oldname), newname)
}

func (r readingFS) Lock(name string, shared bool) (io.Closer, error) {
	if !shared {
		return r.osFS.Lock(name, false)
	}
	path, gone := leadsTo(name)
	switch {
	case gone:
		return unlocked{}, nil
	case path == "":
		path = name
	}
	return r.osFS.Lock(path, true)
}

// unlocked is the lock of a file that cannot be made.
type unlocked struct{}

func (unlocked) Close() error { return nil }
