package wrap

import (
	"io"
	"io/fs"
	"os"

	"github.com/sievedb/sievedb/internal/base/errors"
)

// OpKind is the kind of an operation of FS or File.
type OpKind uint8

// The kinds of operation. Closing a lock is not an operation. OpStat includes Lstat, and OpCreate CreateLog. OpReserve
// is the part of a Write to a vfs.LogFile that makes the file longer; only a Faulty knows it.
const (
	OpCreate OpKind = iota
	OpOpen
	OpRemove
	OpRename
	OpLink
	OpList
	OpStat
	OpMkdirAll
	OpSyncDir
	OpLock
	OpRead
	OpWrite
	OpSync
	OpSize
	OpClose
	OpReserve
	OpCut
	numOpKinds
)

var opNames = [numOpKinds]string{
	"create", "open", "remove", "rename", "link", "list", "stat", "mkdir",
	"sync directory", "lock", "read", "write", "sync", "size", "close",
	"reserve space for", "cut",
}

// String returns the name of the operation in errors.
func (k OpKind) String() string {
	if k < numOpKinds {
		return opNames[k]
	}
	return "unknown operation"
}

// Op describes an operation to the observer of a Counting and the hook of a Faulty. It may be kept.
type Op struct {
	// Index counts the operations of a Faulty from 0. Counting leaves it 0.
	Index uint64
	Kind  OpKind
	// Name is the file or directory, or the old name of Rename and Link. For an open file it is
	// the name with which the file was opened.
	Name string
	// NewName is the new name of Rename and Link, otherwise empty.
	NewName string
	// Offset is where a read or write begins, in bytes. For OpReserve it is the length of the file before.
	Offset int64
	// Length is the number of bytes that a read or write was called with, or that OpReserve adds.
	Length int
	// N is the number of bytes read or written, Err the result of the operation. Both are zero
	// in a call of Faulty's hook, which precedes the operation.
	N   int
	Err error
}

// fail wraps err as a failure of the operation. io.EOF is not wrapped, because readers compare with it.
func (op Op) fail(err error) error {
	switch {
	case errors.Is(err, io.EOF):
		return io.EOF
	case op.Kind == OpRename || op.Kind == OpLink:
		return &os.LinkError{Op: op.Kind.String(), Old: op.Name, New: op.NewName, Err: err}
	}
	return &fs.PathError{Op: op.Kind.String(), Path: op.Name, Err: err}
}
