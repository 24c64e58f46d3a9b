package testutil

import (
	"fmt"
	"io"
	"math/rand"
	"os"
	"sync"

	"github.com/onsi/gomega"

	"github.com/syndtr/goleveldb/leveldb/storage"
)

// StorageMode is an operation of a storage. Modes can be combined with |.
type StorageMode int

// The operations.
const (
	ModeOpen StorageMode = 1 << iota
	ModeCreate
	ModeRemove
	ModeRename
	ModeRead
	ModeWrite
	ModeSync
	ModeClose
)

// emulatedError is an error that a test asked for.
type emulatedError struct{ err error }

func (e emulatedError) Error() string { return fmt.Sprintf("emulated storage error: %v", e.err) }

func (e emulatedError) Unwrap() error { return e.err }

// operation is one mode for one type of file.
type operation struct {
	mode StorageMode
	kind storage.FileType
}

// behavior is what happens at an operation, and what did.
type behavior struct {
	count       int
	bytes       int64
	err         error
	probability float64 // of err
	once        bool
	stalled     bool
}

// Storage is a storage in a temporary directory. It counts and logs operations, makes them wait or fail on
// demand, and checks that no file is opened twice at a time.
type Storage struct {
	storage.Storage
	path string

	// mu guards the fields below.
	mu         sync.Mutex
	stalls     sync.Cond
	rand       *rand.Rand
	operations map[operation]*behavior
	open       map[storage.FileDesc]bool // whether it is a writer's
	onClose    func() (preserve bool, err error)
	onLog      func(log string)
	waiting    []string // messages before OnLog
}

// NewStorage returns an empty Storage. Close removes its directory.
func NewStorage() *Storage {
	path, err := os.MkdirTemp("", "goleveldb-test")
	gomega.ExpectWithOffset(1, err).NotTo(gomega.HaveOccurred())
	stor, err := storage.OpenFile(path, false)
	gomega.ExpectWithOffset(1, err).NotTo(gomega.HaveOccurred(), "storage in %s", path)
	s := &Storage{Storage: stor, path: path, rand: NewRand(), operations: map[operation]*behavior{}, open: map[storage.FileDesc]bool{}}
	s.stalls.L = &s.mu
	s.logf("storage in %s", path)
	return s
}

func (s *Storage) logf(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.logLocked(fmt.Sprintf(format, args...))
}

func (s *Storage) logLocked(message string) {
	if s.onLog == nil {
		s.waiting = append(s.waiting, message)
		return
	}
	s.onLog(message)
}

// OnLog sets the function that gets messages, those of before at once.
func (s *Storage) OnLog(onLog func(log string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onLog = onLog
	for _, message := range s.waiting {
		onLog(message)
	}
	s.waiting = nil
}

// Log implements storage.Storage.
func (s *Storage) Log(str string) {
	s.logf("Log: %s", str)
	s.Storage.Log(str)
}

func (s *Storage) behaviorLocked(mode StorageMode, kind storage.FileType) *behavior {
	op := operation{mode, kind}
	if s.operations[op] == nil {
		s.operations[op] = &behavior{}
	}
	return s.operations[op]
}

// each calls fn for each operation that modes and kinds combine.
func (s *Storage) each(modes StorageMode, kinds storage.FileType, fn func(*behavior)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for mode := ModeOpen; mode <= ModeClose; mode <<= 1 {
		for kind := storage.TypeManifest; kind <= storage.TypeTemp; kind <<= 1 {
			if modes&mode != 0 && kinds&kind != 0 {
				fn(s.behaviorLocked(mode, kind))
			}
		}
	}
}

// begin waits while an operation is stalled, and returns the error that it is to have.
func (s *Storage) begin(mode StorageMode, kind storage.FileType) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.behaviorLocked(mode, kind)
	if err := b.err; err != nil && (b.probability == 1 || s.rand.Float64() < b.probability) {
		if b.once {
			b.err = nil
		}
		return emulatedError{err}
	}
	for b.stalled {
		s.stalls.Wait()
	}
	return nil
}

// end counts and logs an operation.
func (s *Storage) end(mode StorageMode, fd storage.FileDesc, bytes int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.behaviorLocked(mode, fd.Type)
	b.count++
	b.bytes += int64(bytes)
	if err != nil && err != io.EOF {
		s.logLocked(fmt.Sprintf("mode %#x of %s, %d bytes: %v", int(mode), fd, bytes, err))
	}
}

// EmulateError makes operations fail; a nil err ends that.
func (s *Storage) EmulateError(m StorageMode, t storage.FileType, err error) {
	s.each(m, t, func(b *behavior) { b.err, b.probability, b.once = err, 1, false })
}

// EmulateErrorOnce makes each operation fail once.
func (s *Storage) EmulateErrorOnce(m StorageMode, t storage.FileType, err error) {
	s.each(m, t, func(b *behavior) { b.err, b.probability, b.once = err, 1, true })
}

// EmulateRandomError makes operations fail with a probability.
func (s *Storage) EmulateRandomError(m StorageMode, t storage.FileType, prob float64, err error) {
	s.each(m, t, func(b *behavior) { b.err, b.probability, b.once = err, prob, false })
}

// Stall makes operations wait for Release.
func (s *Storage) Stall(m StorageMode, t storage.FileType) {
	s.each(m, t, func(b *behavior) { b.stalled = true })
}

// Release ends Stall.
func (s *Storage) Release(m StorageMode, t storage.FileType) {
	s.each(m, t, func(b *behavior) { b.stalled = false })
	s.stalls.Broadcast()
}

// Counter returns the number of operations, and the bytes that they read or wrote.
func (s *Storage) Counter(m StorageMode, t storage.FileType) (count int, bytes int64) {
	s.each(m, t, func(b *behavior) { count, bytes = count+b.count, bytes+b.bytes })
	return count, bytes
}

// ResetCounter sets the counts to 0.
func (s *Storage) ResetCounter(m StorageMode, t storage.FileType) {
	s.each(m, t, func(b *behavior) { b.count, b.bytes = 0, 0 })
}

// notOpen checks that a file is not open.
func (s *Storage) notOpen(fd storage.FileDesc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	gomega.ExpectWithOffset(2, s.open).NotTo(gomega.HaveKey(fd), "%s is open", fd)
}

func (s *Storage) setOpen(fd storage.FileDesc, writer bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open[fd] = writer
}

// Open implements storage.Storage.
func (s *Storage) Open(fd storage.FileDesc) (r storage.Reader, err error) {
	if err = s.begin(ModeOpen, fd.Type); err == nil {
		s.notOpen(fd)
		r, err = s.Storage.Open(fd)
	}
	s.end(ModeOpen, fd, 0, err)
	if err != nil {
		return nil, err
	}
	s.setOpen(fd, false)
	return &reader{r, s, fd}, nil
}

// Create implements storage.Storage.
func (s *Storage) Create(fd storage.FileDesc) (w storage.Writer, err error) {
	if err = s.begin(ModeCreate, fd.Type); err == nil {
		s.notOpen(fd)
		w, err = s.Storage.Create(fd)
	}
	s.end(ModeCreate, fd, 0, err)
	if err != nil {
		return nil, err
	}
	s.setOpen(fd, true)
	return &writer{w, s, fd}, nil
}

// Remove implements storage.Storage.
func (s *Storage) Remove(fd storage.FileDesc) (err error) {
	if err = s.begin(ModeRemove, fd.Type); err == nil {
		s.notOpen(fd)
		err = s.Storage.Remove(fd)
	}
	s.end(ModeRemove, fd, 0, err)
	return err
}

// ForceRemove removes a file without checks.
func (s *Storage) ForceRemove(fd storage.FileDesc) (err error) {
	err = s.Storage.Remove(fd)
	s.end(ModeRemove, fd, 0, err)
	return err
}

// Rename implements storage.Storage.
func (s *Storage) Rename(oldfd, newfd storage.FileDesc) (err error) {
	if err = s.begin(ModeRename, oldfd.Type); err == nil {
		s.notOpen(oldfd)
		s.notOpen(newfd)
		err = s.Storage.Rename(oldfd, newfd)
	}
	s.end(ModeRename, oldfd, 0, err)
	return err
}

// ForceRename renames a file without checks.
func (s *Storage) ForceRename(oldfd, newfd storage.FileDesc) (err error) {
	err = s.Storage.Rename(oldfd, newfd)
	s.end(ModeRename, oldfd, 0, err)
	return err
}

// SetMeta implements storage.Storage.
func (s *Storage) SetMeta(fd storage.FileDesc) error {
	gomega.ExpectWithOffset(1, fd.Type).To(gomega.Equal(storage.TypeManifest))
	err := s.Storage.SetMeta(fd)
	s.logf("set meta to %s: %v", fd, err)
	return err
}

// GetMeta implements storage.Storage.
func (s *Storage) GetMeta() (fd storage.FileDesc, err error) {
	fd, err = s.Storage.GetMeta()
	s.logf("get meta %s: %v", fd, err)
	return fd, err
}

// List implements storage.Storage.
func (s *Storage) List(t storage.FileType) (fds []storage.FileDesc, err error) {
	fds, err = s.Storage.List(t)
	s.logf("list of type %#x: %d files, %v", int(t), len(fds), err)
	return fds, err
}

// Lock implements storage.Storage.
func (s *Storage) Lock() (l storage.Locker, err error) {
	l, err = s.Storage.Lock()
	s.logf("lock: %v", err)
	return l, err
}

// CloseCheck checks that no file is open.
func (s *Storage) CloseCheck() {
	s.mu.Lock()
	defer s.mu.Unlock()
	gomega.ExpectWithOffset(1, s.open).To(gomega.BeEmpty(), "open files")
}

// OnClose sets a function that Close calls. If it returns true, the directory stays.
func (s *Storage) OnClose(onClose func() (preserve bool, err error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onClose = onClose
}

// Close checks that no file is open, closes the storage and removes its directory.
func (s *Storage) Close() error {
	s.CloseCheck()
	err := s.Storage.Close()
	s.mu.Lock()
	onClose := s.onClose
	s.mu.Unlock()
	if onClose != nil {
		preserve, err := onClose()
		s.logf("closing function: %v", err)
		if preserve {
			s.logf("%s stays", s.path)
			return err
		}
	}
	s.logf("removal: %v", os.RemoveAll(s.path))
	return err
}

// closed closes a file.
func (s *Storage) closed(fd storage.FileDesc, file io.Closer) error {
	err := s.begin(ModeClose, fd.Type)
	if err == nil {
		err = file.Close()
	}
	s.end(ModeClose, fd, 0, err)
	if err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		gomega.ExpectWithOffset(2, s.open).To(gomega.HaveKey(fd), "%s was closed before", fd)
		delete(s.open, fd)
	}
	return err
}

type reader struct {
	storage.Reader
	s  *Storage
	fd storage.FileDesc
}

func (r *reader) Read(p []byte) (n int, err error) {
	if err = r.s.begin(ModeRead, r.fd.Type); err == nil {
		n, err = r.Reader.Read(p)
	}
	r.s.end(ModeRead, r.fd, n, err)
	return n, err
}

func (r *reader) ReadAt(p []byte, off int64) (n int, err error) {
	if err = r.s.begin(ModeRead, r.fd.Type); err == nil {
		n, err = r.Reader.ReadAt(p, off)
	}
	r.s.end(ModeRead, r.fd, n, err)
	return n, err
}

func (r *reader) Close() error { return r.s.closed(r.fd, r.Reader) }

type writer struct {
	storage.Writer
	s  *Storage
	fd storage.FileDesc
}

func (w *writer) Write(p []byte) (n int, err error) {
	if err = w.s.begin(ModeWrite, w.fd.Type); err == nil {
		n, err = w.Writer.Write(p)
	}
	w.s.end(ModeWrite, w.fd, n, err)
	return n, err
}

func (w *writer) Sync() (err error) {
	if err = w.s.begin(ModeSync, w.fd.Type); err == nil {
		err = w.Writer.Sync()
	}
	w.s.end(ModeSync, w.fd, 0, err)
	return err
}

func (w *writer) Close() error { return w.s.closed(w.fd, w.Writer) }
