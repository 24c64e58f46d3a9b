package vfs

import (
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/sievedb/sievedb/internal/errors"
)

// File is an open file. ReadAt and Size may be called from any goroutine at any
// time, also during Write. Write calls are made one at a time. Sync may run
// beside a Write, and covers those that had returned before it began. Every
// method but Close fails with fs.ErrClosed after Close, and so does a second
// Close.
type File interface {
	// ReadAt reads len(p) bytes from the offset. n < len(p) comes only with an
	// error, io.EOF at the file's end. It works on files from Create too.
	io.ReaderAt
	// Write appends p. When it fails, n bytes were appended; what of them
	// reaches the disk is unknown. It fails on a file from Open.
	io.Writer
	// Sync makes the bytes written so far durable, not the file's name: that is
	// FS.SyncDir. After a failed Sync their state is unknown, and a second Sync
	// that succeeds proves nothing: the kernel may have dropped the pages. It
	// fails on a file from Open, as Windows cannot do it.
	Sync() error
	// Close releases the file. It does not sync. The file is closed even when
	// Close returns an error.
	Close() error
	// Size returns the file's length in bytes.
	Size() (int64, error)
}

// FS is a file system. Its methods may be called from any goroutine. The
// package comment tells when their effects are durable.
type FS interface {
	// Abs returns the name by which every other method finds the same file for as
	// long as the process runs: an absolute path where names depend on the working
	// directory, and name itself elsewhere.
	Abs(name string) (string, error)
	// Create makes an empty file for appending; NewOS has its mode. The file is
	// made exclusively (O_EXCL): where the name is taken, by a link too, the call
	// fails with fs.ErrExist or says that it is no plain file, and nothing changes. See Replace.
	Create(name string) (File, error)
	// Open opens a plain file for reading.
	Open(name string) (File, error)
	// Remove removes a file, or an empty directory. A file that is open stays
	// readable through its handles; on Windows Remove fails instead while any
	// handle is open.
	Remove(name string) error
	// Rename gives a file a new name and replaces the file that had it: at every
	// moment newname is the one or the other. On Windows it fails while either
	// file is open. Directories are not asked for and may be refused.
	Rename(oldname, newname string) error
	// Link gives a file a second name. It fails with fs.ErrExist when newname is
	// there.
	Link(oldname, newname string) error
	// List returns the names in dir, without dir, sorted.
	List(dir string) ([]string, error)
	// Stat describes what name is, following symbolic links.
	Stat(name string) (fs.FileInfo, error)
	// Lstat describes what name is, a symbolic link itself.
	Lstat(name string) (fs.FileInfo, error)
	// MkdirAll makes a directory and its missing parents. An existing directory
	// is left as it is, and links are followed. See also MkdirAllSynced and
	// MkdirPlain.
	MkdirAll(dir string) error
	// SyncDir makes durable the entries of dir: names created, renamed and
	// removed. It does nothing where the system cannot (Windows, and file
	// systems that refuse it as invalid for a directory).
	SyncDir(dir string) error
	// Lock takes the file's lock, shared or exclusive, without waiting, until
	// the returned Closer is closed. Where it is held already, by another
	// process or this one, the error is db.ErrLocked and says which. Any number
	// of shared locks go together, in one process and across several.
	//
	// A missing file is created empty; its content is never written, truncated or
	// read. A shared lock on a missing file in a directory that this process may
	// not write to locks nothing and succeeds, so that such a database can be read:
	// other readers are right to come in, but a writer with more rights is not
	// kept out.
	Lock(name string, shared bool) (io.Closer, error)
}

// Replace makes an empty file for appending, as FS.Create does, and first removes
// the plain file that has the name. A program that has the old file open, or has
// it under another name, keeps its bytes. It is for files that only help to make
// others, such as temporary ones that a crash left.
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

// removeIfThere removes a file that may be missing.
func removeIfThere(fsys FS, name string) error {
	if err := fsys.Remove(name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// MkdirAllSynced makes dir and its missing parents, and makes each one that it
// made durable in the directory above it.
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
	// From the top down: an entry is worth nothing while the one above may go.
	for i := len(missing) - 1; i >= 0; i-- {
		if err := fsys.SyncDir(filepath.Dir(missing[i])); err != nil {
			return err
		}
	}
	return nil
}

// MkdirPlain makes dir, which must not be a symbolic link: what is written to dir
// is to stay where dir is. The directories above it are the user's business.
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

// PlainDir reports whether dir is there. It is an error when something else has
// its name, a symbolic link to a directory among that.
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

// RefuseLink is the error of a symbolic link where a plain file should be, nil
// for all else.
func RefuseLink(name string, info fs.FileInfo) error {
	if info.Mode()&fs.ModeSymlink == 0 {
		return nil
	}
	return pathError("open", name, errSymlink)
}

// The faults that the implementations report in the same words.
var (
	errSymlink     = errors.Sentinel("it is a symbolic link, want a plain file")
	errLinkedDir   = errors.Sentinel("it is a symbolic link, want a directory")
	errIsDir       = errors.Sentinel("it is a directory, want a plain file")
	errNotPlain    = errors.Sentinel("it is a device, pipe or socket, want a plain file")
	errNotDir      = errors.Sentinel("it is not a directory")
	errNotEmpty    = errors.Sentinel("the directory is not empty")
	errNegative    = errors.Sentinel("the offset is negative")
	errReadingOnly = fmt.Errorf("the file was opened for reading only: %w", fs.ErrPermission)
)

// notPlain tells why a file of that mode is no plain file, nil when it is one.
func notPlain(mode fs.FileMode) error {
	switch {
	case mode.IsRegular():
		return nil
	case mode&fs.ModeSymlink != 0:
		return errSymlink
	case mode.IsDir():
		return errIsDir
	}
	return errNotPlain
}

func pathError(op, name string, err error) error {
	return &fs.PathError{Op: op, Path: name, Err: err}
}
