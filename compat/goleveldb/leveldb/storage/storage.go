// Package storage is where a database keeps its files: a directory, memory, or a program's own Storage.
package storage

import (
	"errors"
	"fmt"
	"io"
)

// FileType is the kind of a file. Types can be combined with |.
type FileType int

// The kinds of files.
const (
	TypeManifest FileType = 1 << iota
	TypeJournal
	TypeTable
	TypeTemp

	TypeAll = TypeManifest | TypeJournal | TypeTable | TypeTemp
)

// String returns the name of a single type.
func (t FileType) String() string {
	switch t {
	case TypeManifest:
		return "manifest"
	case TypeJournal:
		return "journal"
	case TypeTable:
		return "table"
	case TypeTemp:
		return "temp"
	}
	return fmt.Sprintf("<unknown:%d>", int(t))
}

// Errors of storages, to compare with ==.
var (
	ErrInvalidFile = errors.New("leveldb/storage: invalid file for argument")
	ErrLocked      = errors.New("leveldb/storage: already locked")
	ErrClosed      = errors.New("leveldb/storage: closed")
)

var (
	errFileOpen = errors.New("leveldb/storage: file still open")
	errReadOnly = errors.New("leveldb/storage: storage is read-only")
)

// ErrCorrupted says that a file of the storage is damaged.
type ErrCorrupted struct {
	Fd  FileDesc // zero: no file
	Err error
}

// Error implements error.
func (e *ErrCorrupted) Error() string {
	if e.Fd.Zero() {
		return e.Err.Error()
	}
	return fmt.Sprintf("%v [file=%v]", e.Err, e.Fd)
}

// Unwrap returns Err.
func (e *ErrCorrupted) Unwrap() error { return e.Err }

// Syncer makes the bytes written so far durable.
type Syncer interface {
	Sync() error
}

// Reader is a file open for reading.
type Reader interface {
	io.ReadSeeker
	io.ReaderAt
	io.Closer
}

// Writer is a file open for writing.
type Writer interface {
	io.WriteCloser
	Syncer
}

// Locker holds the lock of a storage until Unlock is called.
type Locker interface {
	Unlock()
}

// FileDesc identifies a file.
type FileDesc struct {
	Type FileType
	Num  int64
}

// String returns the file's name in a directory.
func (fd FileDesc) String() string {
	switch fd.Type {
	case TypeManifest:
		return fmt.Sprintf("MANIFEST-%06d", fd.Num)
	case TypeJournal:
		return fmt.Sprintf("%06d.log", fd.Num)
	case TypeTable:
		return fmt.Sprintf("%06d.ldb", fd.Num)
	case TypeTemp:
		return fmt.Sprintf("%06d.tmp", fd.Num)
	}
	return fmt.Sprintf("%#x-%d", int(fd.Type), fd.Num)
}

// Zero reports whether fd is the zero FileDesc.
func (fd FileDesc) Zero() bool { return fd == FileDesc{} }

// FileDescOk reports whether fd has one known type and a number that is not negative.
func FileDescOk(fd FileDesc) bool {
	switch fd.Type {
	case TypeManifest, TypeJournal, TypeTable, TypeTemp:
		return fd.Num >= 0
	}
	return false
}

// Storage has the files of a database. Its methods are safe for concurrent use. After Close they return ErrClosed.
type Storage interface {
	// Lock acquires the lock of the storage. It fails while another holder has it.
	Lock() (Locker, error)

	// Log receives messages for people.
	Log(str string)

	// SetMeta records, atomically, which MANIFEST is the current one.
	SetMeta(fd FileDesc) error

	// GetMeta returns what SetMeta recorded, or os.ErrNotExist.
	GetMeta() (FileDesc, error)

	// List returns the files of the given types.
	List(ft FileType) ([]FileDesc, error)

	// Open opens a file for reading. It returns an error for which os.IsNotExist is true if there is no such file.
	Open(fd FileDesc) (Reader, error)

	// Create opens an empty file for writing. A file that exists is truncated.
	Create(fd FileDesc) (Writer, error)

	// Remove removes a file.
	Remove(fd FileDesc) error

	// Rename renames a file, and replaces one that has the new name.
	Rename(oldfd, newfd FileDesc) error

	// Close closes the storage.
	Close() error
}
