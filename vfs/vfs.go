package vfs

import (
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/sievedb/sievedb/internal/base/errors"
)

// File is an open file. ReadAt and Size are safe for concurrent use, also during Write. Write calls must not be
// concurrent with each other. Sync may run concurrently with Write and covers the Writes that returned before it began.
// After Close, every method, including Close, fails with fs.ErrClosed.
type File interface {
	// ReadAt reads len(p) bytes at the given offset. It returns n < len(p) only with an
	// error, which is io.EOF at the end of the file. It works on files from Create too.
	io.ReaderAt
	// Write appends p. If it fails, n bytes were appended, but an unknown number of them
	// reaches the disk. It fails on a file from Open.
	io.Writer
	// Sync makes the bytes written so far durable. It does not make the file's name durable; see FS.SyncDir. After a
	// failed Sync the state of the bytes is unknown, and a later successful Sync proves nothing, because the kernel may
	// have dropped the pages. Sync fails on a file from Open, because Windows cannot do it.
	Sync() error
	// Close releases the file. It does not sync. The file is closed even if Close returns an error.
	Close() error
	// Size returns the file's length in bytes.
	Size() (int64, error)
}

// FS is a file system. Its methods are safe for concurrent use. The package comment says
// when their effects are durable.
type FS interface {
	// Abs returns a name for the same file that stays valid for the lifetime of the process: an absolute path if names
	// depend on the working directory, and name itself otherwise.
	Abs(name string) (string, error)
	// Create makes an empty file for appending, with the mode given to NewOS. The file is created exclusively (O_EXCL):
	// if the name exists, even as a link, Create changes nothing and fails with fs.ErrExist, or with an error that says
	// that name is not a plain file. See Replace.
	Create(name string) (File, error)
	// Open opens a plain file for reading.
	Open(name string) (File, error)
	// Remove removes a file or an empty directory. An open file stays readable through
	// its handles; on Windows, Remove fails instead while a handle is open.
	Remove(name string) error
	// Rename renames a file and atomically replaces an existing file newname. On Windows it fails while either file is
	// open. It renames a directory to a name that does not exist; DB.Checkpoint needs that.
	Rename(oldname, newname string) error
	// Link adds a second name to a file. It fails with fs.ErrExist if newname exists.
	Link(oldname, newname string) error
	// List returns the sorted names of the entries of dir, without the path of dir.
	List(dir string) ([]string, error)
	// Stat describes the file name, following symbolic links.
	Stat(name string) (fs.FileInfo, error)
	// Lstat describes the file name, without following a symbolic link.
	Lstat(name string) (fs.FileInfo, error)
	// MkdirAll makes a directory and its missing parents. It does not change existing
	// directories, and it follows links. See also MkdirAllSynced and MkdirPlain.
	MkdirAll(dir string) error
	// SyncDir makes the entries of dir durable: names created, renamed and removed. It does nothing on systems that do
	// not support it (Windows, and file systems that refuse to sync a directory as invalid).
	SyncDir(dir string) error
	// Lock acquires a shared or exclusive lock on the file, without waiting, and holds it until the returned Closer is
	// closed. If another process or this one already holds it, the error is db.ErrLocked and says which. Any number of
	// shared locks can be held simultaneously, in one process and across several.
	//
	// A missing file is created empty; its content is never written, truncated or read. If the file is missing and this
	// process has no permission to create it, a shared lock succeeds without locking anything, so that such a database
	// can be read. Other readers are harmless, but a writer with more permissions is not excluded.
	Lock(name string, shared bool) (io.Closer, error)
}

// Replace makes an empty file for appending, as FS.Create does, but first removes an existing plain
// file of that name. The old file's bytes remain for programs that have it open, and under its
// other names. Replace is for intermediate files, such as temporary files that a crash left.
func Replace(fsys FS, name string) (File, error) {
	f, err := fsys.Create(name)
	if !errors.Is(err, fs.ErrExist) {
		return f, err
	}
	if err := removeIfThere(fsys, name); err != nil {
		return nil, err
	}
	return fsys.Create(name)
}

// removeIfThere removes a file and ignores a missing one.
func removeIfThere(fsys FS, name string) error {
	if err := fsys.Remove(name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// MkdirAllSynced makes dir and its missing parents, and makes each new directory durable in its parent.
func MkdirAllSynced(fsys FS, dir string) error {
	dir = filepath.Clean(dir)
	var missing []string
	for d := dir; ; d = filepath.Dir(d) {
		_, err := fsys.Stat(d)
		if err == nil || filepath.Dir(d) == d {
			break
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		missing = append(missing, d)
	}
	if err := fsys.MkdirAll(dir); err != nil {
		return err
	}
	// From the top down: an entry is not durable before its parent's entry is.
	for i := len(missing) - 1; i >= 0; i-- {
		if err := fsys.SyncDir(filepath.Dir(missing[i])); err != nil {
			return err
		}
	}
	return nil
}

// MkdirPlain makes dir and its missing parents. It fails if dir is a symbolic link, so that
// files are not written elsewhere. Links further up in the path are followed.
func MkdirPlain(fsys FS, dir string) error {
	there, err := PlainDir(fsys, dir)
	if there || err != nil {
		return err
	}
	if err := fsys.MkdirAll(dir); err != nil {
		return err
	}
	_, err = PlainDir(fsys, dir)
	return err
}

// PlainDir reports whether dir exists. It returns an error if dir is anything but a directory,
// including a symbolic link to a directory.
func PlainDir(fsys FS, dir string) (there bool, err error) {
	info, err := fsys.Lstat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, err
	case info.Mode()&fs.ModeSymlink != 0:
		return false, pathError("open directory", dir, errLinkedDir)
	case !info.IsDir():
		return false, pathError("open directory", dir, errNotDir)
	}
	return true, nil
}

// RefuseLink returns an error if info describes a symbolic link, and nil otherwise. name is the path for the error.
func RefuseLink(name string, info fs.FileInfo) error {
	if info.Mode()&fs.ModeSymlink == 0 {
		return nil
	}
	return pathError("open", name, ErrSymlink)
}

// ErrSymlink is the error of OS for a symbolic link that has the name of a file.
var ErrSymlink = errors.Sentinel("it is a symbolic link, want a plain file")

// The errors that the implementations have in common.
var (
	errLinkedDir   = errors.Sentinel("it is a symbolic link, want a directory")
	errIsDir       = errors.Sentinel("it is a directory, want a plain file")
	errNotPlain    = errors.Sentinel("it is a device, pipe or socket, want a plain file")
	errNotDir      = errors.Sentinel("it is not a directory")
	errNotEmpty    = errors.Sentinel("the directory is not empty")
	errNegative    = errors.Sentinel("the offset is negative")
	errReadingOnly = fmt.Errorf("the file was opened for reading only: %w", fs.ErrPermission)
)

// notPlain returns why a file of that mode is not a plain file, or nil if it is one.
func notPlain(mode fs.FileMode) error {
	switch {
	case mode.IsRegular():
		return nil
	case mode&fs.ModeSymlink != 0:
		return ErrSymlink
	case mode.IsDir():
		return errIsDir
	}
	return errNotPlain
}

func pathError(op, name string, err error) error {
	return &fs.PathError{Op: op, Path: name, Err: err}
}
