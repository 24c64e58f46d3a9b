package main

import (
	"bytes"
	"os"
	"sync"

	"github.com/syndtr/goleveldb/leveldb/storage"
)

// customStorage is a storage as a program may have one: a map, with the least that the interface asks for.
type customStorage struct {
	mu     sync.Mutex
	files  map[storage.FileDesc]*[]byte
	meta   storage.FileDesc
	locked bool
}

func newCustomStorage() *customStorage {
	return &customStorage{files: map[storage.FileDesc]*[]byte{}}
}

type customLock struct{ s *customStorage }

func (l customLock) Unlock() {
	l.s.mu.Lock()
	l.s.locked = false
	l.s.mu.Unlock()
}

func (s *customStorage) Lock() (storage.Locker, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.locked {
		return nil, storage.ErrLocked
	}
	s.locked = true
	return customLock{s}, nil
}

func (*customStorage) Log(string) {}

func (s *customStorage) SetMeta(fd storage.FileDesc) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.meta = fd
	return nil
}

func (s *customStorage) GetMeta() (storage.FileDesc, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.files[s.meta] == nil {
		return storage.FileDesc{}, os.ErrNotExist
	}
	return s.meta, nil
}

func (s *customStorage) List(ft storage.FileType) (fds []storage.FileDesc, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for fd := range s.files {
		if fd.Type&ft != 0 {
			fds = append(fds, fd)
		}
	}
	return fds, nil
}

type customReader struct{ *bytes.Reader }

func (customReader) Close() error { return nil }

func (s *customStorage) Open(fd storage.FileDesc) (storage.Reader, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.files[fd] == nil {
		return nil, os.ErrNotExist
	}
	return customReader{bytes.NewReader(*s.files[fd])}, nil
}

type customWriter struct {
	s    *customStorage
	data *[]byte
}

func (w customWriter) Write(p []byte) (int, error) {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	*w.data = append(*w.data, p...)
	return len(p), nil
}

func (customWriter) Sync() error  { return nil }
func (customWriter) Close() error { return nil }

func (s *customStorage) Create(fd storage.FileDesc) (storage.Writer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	data := new([]byte)
	s.files[fd] = data
	return customWriter{s, data}, nil
}

func (s *customStorage) Remove(fd storage.FileDesc) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.files, fd)
	return nil
}

func (s *customStorage) Rename(oldfd, newfd storage.FileDesc) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files[newfd] = s.files[oldfd]
	delete(s.files, oldfd)
	return nil
}

func (*customStorage) Close() error { return nil }
