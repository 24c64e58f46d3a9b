package storage

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/vfs"
)

// OpenFile opens the directory path as a storage, and locks it. Unless readOnly is set, it makes the directory and its
// parents if they are missing. The lock excludes other processes, and other storages of this one; read-only storages
// share it. If the directory is locked, the error is the system's (syscall.EAGAIN on Unix).
//
// Only the owner can read and write the files and directories that the storage makes (modes 0600 and 0700), where
// goleveldb makes some that all users can read (0644 and 0755). Modes of existing ones never change. A file that is a
// symbolic link is an error, where goleveldb writes through it; a read-only storage follows links to plain files.
func OpenFile(path string, readOnly bool) (Storage, error) {
	if err := prepareDir(path, readOnly); err != nil {
		return nil, err
	}
	system := vfs.OS
	if readOnly {
		system = vfs.NewOSForReading(vfs.DefaultFileMode)
	}
	lock, err := system.Lock(filepath.Join(path, "LOCK"), readOnly)
	if errors.Is(err, db.ErrLocked) {
		return nil, errInUse
	} else if err != nil {
		return nil, plain(err)
	}
	s := &fileStorage{path: path, readOnly: readOnly, system: system, dirLock: lock}
	if !readOnly {
		if err := s.log.open(system, filepath.Join(path, "LOG")); err != nil {
			_ = lock.Close()
			return nil, err
		}
	}
	runtime.SetFinalizer(s, (*fileStorage).Close)
	return s, nil
}

func prepareDir(path string, readOnly bool) error {
	info, err := os.Stat(path)
	switch {
	case err == nil && !info.IsDir():
		return fmt.Errorf("leveldb/storage: open %s: not a directory", path)
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist) && !readOnly:
		return vfs.OS.MkdirAll(path)
	}
	return err
}

// plain returns the *fs.PathError in err, which programs examine with os.IsNotExist and os.IsPermission.
func plain(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p
	}
	return err
}

type fileStorage struct {
	path     string
	readOnly bool
	system   vfs.FS
	dirLock  io.Closer

	// mu guards the fields below.
	mu     sync.Mutex
	locked *fileLock // nil: not locked
	log    messageLog
	open   int // files
	closed bool
}

// SieveFS returns the file system and the directory with which SieveDB opens the same files without
// this storage in between. It fails if the storage is closed, or read-only and toWrite is set.
func (s *fileStorage) SieveFS(toWrite bool) (vfs.FS, string, error) {
	s.mu.Lock()
	err := s.usableLocked(toWrite)
	s.mu.Unlock()
	if err != nil {
		return nil, "", err
	}
	return newDirectFS(s), s.path, nil
}

type fileLock struct{ s *fileStorage } // nil s: of a read-only storage

func (l *fileLock) Unlock() {
	if l.s == nil {
		return
	}
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	if l.s.locked == l {
		l.s.locked = nil
	}
}

func (s *fileStorage) Lock() (Locker, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return nil, ErrClosed
	case s.readOnly:
		return &fileLock{}, nil
	case s.locked != nil:
		return nil, ErrLocked
	}
	s.locked = &fileLock{s}
	return s.locked, nil
}

func (s *fileStorage) Log(str string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.log.print(str)
	}
}

// usable returns why the storage cannot be used, or written to. Its caller must hold s.mu.
func (s *fileStorage) usableLocked(toWrite bool) error {
	switch {
	case toWrite && s.readOnly:
		return errReadOnly
	case s.closed:
		return ErrClosed
	}
	return nil
}

func (s *fileStorage) file(fd FileDesc) string { return filepath.Join(s.path, fd.String()) }

// oldTable returns the other name that LevelDB's tables can have.
func (s *fileStorage) oldTable(fd FileDesc) string {
	return filepath.Join(s.path, fmt.Sprintf("%06d.sst", fd.Num))
}

func (s *fileStorage) List(ft FileType) ([]FileDesc, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usableLocked(false); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(s.path)
	if err != nil {
		return nil, err
	}
	var fds []FileDesc
	for _, e := range entries {
		if fd, ok := parseName(e.Name()); ok && fd.Type&ft != 0 {
			fds = append(fds, fd)
		}
	}
	return fds, nil
}

func (s *fileStorage) Open(fd FileDesc) (Reader, error) {
	if !FileDescOk(fd) {
		return nil, ErrInvalidFile
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usableLocked(false); err != nil {
		return nil, err
	}
	f, err := s.system.Open(s.file(fd))
	if fd.Type == TypeTable && errors.Is(err, fs.ErrNotExist) {
		f, err = s.system.Open(s.oldTable(fd))
	}
	return s.handle(f, fd, err)
}

func (s *fileStorage) Create(fd FileDesc) (Writer, error) {
	if !FileDescOk(fd) {
		return nil, ErrInvalidFile
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usableLocked(true); err != nil {
		return nil, err
	}
	f, err := vfs.Replace(s.system, s.file(fd))
	return s.handle(f, fd, err)
}

func (s *fileStorage) handle(f vfs.File, fd FileDesc, err error) (*fileHandle, error) {
	if err != nil {
		return nil, plain(err)
	}
	s.open++
	return &fileHandle{File: f, s: s, fd: fd}, nil
}

func (s *fileStorage) Remove(fd FileDesc) error {
	if !FileDescOk(fd) {
		return ErrInvalidFile
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usableLocked(true); err != nil {
		return err
	}
	err := os.Remove(s.file(fd))
	if fd.Type == TypeTable && errors.Is(err, fs.ErrNotExist) {
		if old := os.Remove(s.oldTable(fd)); !errors.Is(old, fs.ErrNotExist) {
			return old
		}
	}
	return err
}

func (s *fileStorage) Rename(oldfd, newfd FileDesc) error {
	if !FileDescOk(oldfd) || !FileDescOk(newfd) {
		return ErrInvalidFile
	}
	if oldfd == newfd {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usableLocked(true); err != nil {
		return err
	}
	return os.Rename(s.file(oldfd), s.file(newfd))
}

func (s *fileStorage) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	s.closed = true
	runtime.SetFinalizer(s, nil)
	if s.open > 0 {
		s.log.print(fmt.Sprintf("close: warning, %d files still open", s.open))
	}
	s.log.close()
	return s.dirLock.Close()
}

type fileHandle struct {
	vfs.File
	s      *fileStorage
	fd     FileDesc
	at     int64 // of Read and Seek
	closed bool  // guarded by s.mu
}

// Read implements Reader.
func (h *fileHandle) Read(p []byte) (n int, err error) {
	if len(p) > 0 {
		n, err = h.ReadAt(p, h.at)
	}
	h.at += int64(n)
	if n > 0 && err == io.EOF {
		err = nil
	}
	return n, err
}

// Seek implements Reader.
func (h *fileHandle) Seek(offset int64, whence int) (int64, error) {
	size, err := h.Size()
	if err != nil {
		return 0, err
	}
	from, known := map[int]int64{io.SeekStart: 0, io.SeekCurrent: h.at, io.SeekEnd: size}[whence]
	if at := from + offset; known && at >= 0 {
		h.at = at
		return at, nil
	}
	return 0, &fs.PathError{Op: "seek", Path: h.s.file(h.fd), Err: fs.ErrInvalid}
}

// Sync also makes the name of a MANIFEST durable.
func (h *fileHandle) Sync() error {
	err := h.File.Sync()
	if err == nil && h.fd.Type == TypeManifest {
		err = h.s.system.SyncDir(h.s.path)
	}
	return err
}

func (h *fileHandle) Close() error {
	h.s.mu.Lock()
	defer h.s.mu.Unlock()
	if h.closed {
		return ErrClosed
	}
	h.closed = true
	h.s.open--
	return h.File.Close()
}

// parseName returns the file that has the given name in a directory.
func parseName(name string) (fd FileDesc, ok bool) {
	if number, manifest := strings.CutPrefix(name, "MANIFEST-"); manifest {
		fd.Type = TypeManifest
		return fd, parseNumber(number, &fd.Num)
	}
	number, suffix, _ := strings.Cut(name, ".")
	switch suffix {
	case "log":
		fd.Type = TypeJournal
	case "ldb", "sst":
		fd.Type = TypeTable
	case "tmp":
		fd.Type = TypeTemp
	default:
		return FileDesc{}, false
	}
	return fd, parseNumber(number, &fd.Num)
}

// parseNumber accepts decimal digits only.
func parseNumber(digits string, to *int64) bool {
	n, err := strconv.ParseUint(digits, 10, 63)
	*to = int64(n)
	return err == nil
}
