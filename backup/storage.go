package backup

import (
	"context"
	"io"
	"iter"
)

// Storage is where a repository is: a small part of what object stores can do. Names consist of
// letters, digits, '-', '.' and '~', with '/' between their parts.
//
// All methods may be called by any goroutine, and by several processes and machines for the same
// storage. When a call has returned nil, later calls anywhere see its effect, and it survives a power
// cut. A call that returned an error may have had its effect, but has no effect later.
type Storage interface {
	// Create makes an object with everything that r returns until io.EOF. It is atomic: other
	// calls see the complete object or none, and there is none if r or Create fails. If the name
	// exists, it changes nothing and returns an error that matches fs.ErrExist.
	Create(ctx context.Context, name string, r io.Reader) error
	// Open returns the object's bytes from the beginning. The error for a missing object matches
	// fs.ErrNotExist. The caller closes the reader.
	Open(ctx context.Context, name string) (io.ReadCloser, error)
	// List yields all objects whose names begin with prefix, in any order. An error ends the
	// loop. Objects that are created or deleted at the same time may be missing. If an object is listed, or a
	// deleted one is not, that survives a power cut, even if the call that created or deleted it never returned.
	List(ctx context.Context, prefix string) iter.Seq2[Object, error]
	// Delete removes an object. A missing object is no error.
	Delete(ctx context.Context, name string) error
}

// Object is an entry of Storage.List.
type Object struct {
	Name string
	Size int64 // in bytes
}
