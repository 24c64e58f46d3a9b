package backuptest

import (
	"bytes"
	"context"
	"io"
	"io/fs"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/sievedb/sievedb/backup"
)

// OpKind is the kind of an operation of a storage.
type OpKind string

// The kinds.
const (
	OpCreate OpKind = "create"
	OpOpen   OpKind = "open"
	OpList   OpKind = "list"
	OpDelete OpKind = "delete"
)

// Op is an operation.
type Op struct {
	Kind OpKind
	Name string // the prefix for OpList
}

// Mem is a storage in memory.
type Mem struct {
	mu      sync.Mutex
	objects map[string][]byte
}

// NewMem returns an empty storage.
func NewMem() *Mem { return &Mem{objects: map[string][]byte{}} }

// Create implements backup.Storage.
func (m *Mem) Create(ctx context.Context, name string, r io.Reader) error {
	content, err := io.ReadAll(r)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, there := m.objects[name]; there {
		return &fs.PathError{Op: "create", Path: name, Err: fs.ErrExist}
	}
	m.objects[name] = content
	return nil
}

// Open implements backup.Storage.
func (m *Mem) Open(_ context.Context, name string) (io.ReadCloser, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	content, there := m.objects[name]
	if !there {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return io.NopCloser(bytes.NewReader(content)), nil
}

// List implements backup.Storage. It shows the objects of the moment in which it begins.
func (m *Mem) List(_ context.Context, prefix string) iter.Seq2[backup.Object, error] {
	return func(yield func(backup.Object, error) bool) {
		for name, content := range m.Objects() {
			if strings.HasPrefix(name, prefix) && !yield(backup.Object{Name: name, Size: int64(len(content))}, nil) {
				return
			}
		}
	}
}

// Delete implements backup.Storage.
func (m *Mem) Delete(_ context.Context, name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.objects, name)
	return nil
}

// Objects returns a copy of the storage; the contents are shared.
func (m *Mem) Objects() map[string][]byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.objects)
}

// Names returns the sorted names that begin with prefix.
func (m *Mem) Names(prefix string) (names []string) {
	for name := range m.Objects() {
		if strings.HasPrefix(name, prefix) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Replace changes an object, as only damage does. nil removes it.
func (m *Mem) Replace(name string, content []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if content == nil {
		delete(m.objects, name)
		return
	}
	m.objects[name] = content
}

// Hooked is a storage that calls a function before each operation of another one. If it returns an
// error, the operation is not done.
type Hooked struct {
	Storage backup.Storage
	Before  func(Op) error
	// After is called after operations that succeeded, if it is not nil. If it returns an error,
	// the operation was done but fails.
	After func(Op) error

	mu            sync.Mutex // guards the fields below
	read, written int64      // bytes of objects
}

// Bytes returns how many bytes were read from objects and written to objects so far.
func (h *Hooked) Bytes() (read, written int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.read, h.written
}

func (h *Hooked) do(op Op, f func() error) error {
	var err error
	if h.Before != nil {
		err = h.Before(op)
	}
	if err == nil {
		err = f()
	}
	if err == nil && h.After != nil {
		err = h.After(op)
	}
	return err
}

// counted counts what is read.
type counted struct {
	io.Reader
	io.Closer
	h  *Hooked
	to *int64
}

func (c counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.h.mu.Lock()
	defer c.h.mu.Unlock()
	*c.to += int64(n)
	return n, err
}

// Create implements backup.Storage.
func (h *Hooked) Create(ctx context.Context, name string, r io.Reader) error {
	return h.do(Op{OpCreate, name}, func() error {
		return h.Storage.Create(ctx, name, counted{Reader: r, h: h, to: &h.written})
	})
}

// Open implements backup.Storage.
func (h *Hooked) Open(ctx context.Context, name string) (o io.ReadCloser, err error) {
	err = h.do(Op{OpOpen, name}, func() error {
		o, err = h.Storage.Open(ctx, name)
		return err
	})
	if err != nil {
		return nil, err
	}
	return counted{o, o, h, &h.read}, nil
}

// List implements backup.Storage.
func (h *Hooked) List(ctx context.Context, prefix string) iter.Seq2[backup.Object, error] {
	return func(yield func(backup.Object, error) bool) {
		if err := h.do(Op{OpList, prefix}, func() error { return nil }); err != nil {
			yield(backup.Object{}, err)
			return
		}
		h.Storage.List(ctx, prefix)(yield)
	}
}

// Delete implements backup.Storage.
func (h *Hooked) Delete(ctx context.Context, name string) error {
	return h.do(Op{OpDelete, name}, func() error { return h.Storage.Delete(ctx, name) })
}
