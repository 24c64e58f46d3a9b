package wrap

import (
	"io"
	"io/fs"
	"os"

	"github.com/sievedb/sievedb/internal/errors"
)

// OpKind is the kind of an operation of FS or File.
type OpKind uint8

// The operations. Closing a lock is none; OpStat is Lstat too.
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
	numOpKinds
)

var opNames = [numOpKinds]string{
	"create", "open", "remove", "rename", "link", "list", "stat", "mkdir",
	"sync directory", "lock", "read", "write", "sync", "size", "close",
}

// String returns the operation's name as errors show it.
func (k OpKind) String() string {
	if k < numOpKinds {
		return opNames[k]
	}
	return "unknown operation"
}

// Op is one operation as Counting's observer and Faulty's hook see it. It is
// passed by value and may be kept.
type Op struct {
	// Index counts the operations of a Faulty from 0. Counting leaves it 0.
	Index uint64
	Kind  OpKind
	// Name is the file or directory; of Rename and Link the old name. An open
	// file goes by the name that it was opened with.
	Name string
	// NewName is Rename's and Link's second name, otherwise empty.
	NewName string
	// Offset is where a read or write begins, in bytes.
	Offset int64
	// Length is the number of bytes that a read or write asks for.
	Length int
	// N is the number of bytes that it moved, Err what the operation returned.
	// Faulty's hook runs before the operation and sees them zero.
	N   int
	Err error
}

// fail wraps err as a failure of the operation. io.EOF stays bare, since
// readers compare with it.
func (op Op) fail(err error) error {
	switch {
	case errors.Is(err, io.EOF):
		return io.EOF
	case op.Kind == OpRename || op.Kind == OpLink:
		return &os.LinkError{Op: op.Kind.String(), Old: op.Name, New: op.NewName, Err: err}
	}
	return &fs.PathError{Op: op.Kind.String(), Path: op.Name, Err: err}
}
