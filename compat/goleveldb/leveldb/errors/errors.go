// Package errors has the errors that several packages return.
package errors

import (
	"errors"
	"fmt"

	"github.com/syndtr/goleveldb/leveldb/storage"
	"github.com/syndtr/goleveldb/leveldb/util"
)

// Errors to compare with ==.
var (
	ErrNotFound    = New("leveldb: not found")
	ErrReleased    = util.ErrReleased
	ErrHasReleaser = util.ErrHasReleaser
)

// New is errors.New of the standard library.
func New(text string) error { return errors.New(text) }

// ErrCorrupted says that a file is damaged, or that data in memory is.
type ErrCorrupted struct {
	Fd  storage.FileDesc // zero: no file
	Err error
}

// Error implements error.
func (e *ErrCorrupted) Error() string {
	if e.Fd.Zero() {
		return e.Err.Error()
	}
	return fmt.Sprintf("%v [file=%v]", e.Err, e.Fd)
}

// Unwrap returns Err, which says more: a *sievedb.CorruptionError for files.
func (e *ErrCorrupted) Unwrap() error { return e.Err }

// NewErrCorrupted returns an *ErrCorrupted.
func NewErrCorrupted(fd storage.FileDesc, err error) error { return &ErrCorrupted{Fd: fd, Err: err} }

// IsCorrupted reports whether err is an *ErrCorrupted of this package or of package storage.
func IsCorrupted(err error) bool {
	switch err.(type) {
	case *ErrCorrupted, *storage.ErrCorrupted:
		return true
	}
	return false
}

// ErrMissingFiles is goleveldb's error for a database that lacks files. Open does not return it here: the Err
// of its *ErrCorrupted is a *sievedb.CorruptionError with the name of the file.
type ErrMissingFiles struct {
	Fds []storage.FileDesc
}

// Error implements error.
func (e *ErrMissingFiles) Error() string { return "file missing" }

// SetFd sets the file of an *ErrCorrupted, and returns err.
func SetFd(err error, fd storage.FileDesc) error {
	if c, ok := err.(*ErrCorrupted); ok {
		c.Fd = fd
	}
	return err
}
