package storage

import (
	"bytes"
	"io"
	"os"
	"slices"
	"sync"
)

// NewMemStorage returns an empty storage in memory.
func NewMemStorage() Storage { return &memStorage{files: map[FileDesc]*memFile{}} }

type memStorage struct {
	// mu guards the fields below and those of each memFile.
	mu    sync.Mutex
	lock  *memLock // nil: not locked
	files map[FileDesc]*memFile
	meta  FileDesc
}

// memFile is a file in memory. One handle at a time has it open.
type memFile struct {
	data []byte
	open bool
}

type memLock struct{ ms *memStorage }

func (l *memLock) Unlock() {
	l.ms.mu.Lock()
	defer l.ms.mu.Unlock()
	if l.ms.lock == l {
		l.ms.lock = nil
	}
}

func (ms *memStorage) Lock() (Locker, error) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	if ms.lock != nil {
		return nil, ErrLocked
	}
	ms.lock = &memLock{ms}
	return ms.lock, nil
}

func (*memStorage) Log(string) {}

func (ms *memStorage) SetMeta(fd FileDesc) error {
	if !FileDescOk(fd) {
		return ErrInvalidFile
	}
	ms.mu.Lock()
	defer ms.mu.Unlock()
	ms.meta = fd
	return nil
}

func (ms *memStorage) GetMeta() (FileDesc, error) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	if ms.meta.Zero() {
		return FileDesc{}, os.ErrNotExist
	}
	return ms.meta, nil
}

func (ms *memStorage) List(ft FileType) ([]FileDesc, error) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	var fds []FileDesc
	for fd := range ms.files {
		if fd.Type&ft != 0 {
			fds = append(fds, fd)
		}
	}
	return fds, nil
}

func (ms *memStorage) Open(fd FileDesc) (Reader, error) {
	if !FileDescOk(fd) {
		return nil, ErrInvalidFile
	}
	ms.mu.Lock()
	defer ms.mu.Unlock()
	f := ms.files[fd]
	if f == nil {
		return nil, os.ErrNotExist
	}
	if f.open {
		return nil, errFileOpen
	}
	f.open = true
	return &memReader{Reader: bytes.NewReader(f.data), handle: handle{ms: ms, f: f}}, nil
}

func (ms *memStorage) Create(fd FileDesc) (Writer, error) {
	if !FileDescOk(fd) {
		return nil, ErrInvalidFile
	}
	ms.mu.Lock()
	defer ms.mu.Unlock()
	if f := ms.files[fd]; f != nil && f.open {
		return nil, errFileOpen
	}
	f := &memFile{open: true}
	ms.files[fd] = f
	return &memWriter{handle{ms: ms, f: f}}, nil
}

func (ms *memStorage) Remove(fd FileDesc) error {
	if !FileDescOk(fd) {
		return ErrInvalidFile
	}
	ms.mu.Lock()
	defer ms.mu.Unlock()
	if ms.files[fd] == nil {
		return os.ErrNotExist
	}
	delete(ms.files, fd)
	return nil
}

func (ms *memStorage) Rename(oldfd, newfd FileDesc) error {
	if !FileDescOk(oldfd) || !FileDescOk(newfd) {
		return ErrInvalidFile
	}
	if oldfd == newfd {
		return nil
	}
	ms.mu.Lock()
	defer ms.mu.Unlock()
	f, replaced := ms.files[oldfd], ms.files[newfd]
	switch {
	case f == nil:
		return os.ErrNotExist
	case f.open || replaced != nil && replaced.open:
		return errFileOpen
	}
	delete(ms.files, oldfd)
	ms.files[newfd] = f
	return nil
}

func (*memStorage) Close() error { return nil }

// handle is what has a file open.
type handle struct {
	ms     *memStorage
	f      *memFile
	closed bool
}

func (h *handle) Close() error {
	h.ms.mu.Lock()
	defer h.ms.mu.Unlock()
	if h.closed {
		return ErrClosed
	}
	h.closed, h.f.open = true, false
	return nil
}

type memReader struct {
	*bytes.Reader
	handle
}

// memWriter can read as well, which other writers cannot.
type memWriter struct{ handle }

func (w *memWriter) Write(p []byte) (int, error) {
	w.ms.mu.Lock()
	defer w.ms.mu.Unlock()
	if w.closed {
		return 0, ErrClosed
	}
	if size := len(w.f.data) + len(p); size > cap(w.f.data) { // append alone would grow a large file by a quarter
		w.f.data = slices.Grow(w.f.data, max(size, 2*cap(w.f.data))-len(w.f.data))
	}
	w.f.data = append(w.f.data, p...)
	return len(p), nil
}

func (*memWriter) Sync() error { return nil }

func (w *memWriter) ReadAt(p []byte, off int64) (int, error) {
	w.ms.mu.Lock()
	defer w.ms.mu.Unlock()
	if off < 0 || off > int64(len(w.f.data)) {
		return 0, io.EOF
	}
	n := copy(p, w.f.data[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}
