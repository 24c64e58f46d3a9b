package leveldb

import (
	"bytes"
	stderrors "errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sievedb/sievedb/vfs"

	"github.com/syndtr/goleveldb/leveldb/errors"
	"github.com/syndtr/goleveldb/leveldb/storage"
)

// directStorage is a storage whose files SieveDB can open itself.
type directStorage interface {
	SieveFS(toWrite bool) (fsys vfs.FS, dir string, err error)
}

// storageDir is the directory of the database in a storageFS.
const storageDir = "/storage"

const (
	currentName = "CURRENT"
	lockName    = "LOCK"
)

// storageError is an error of a storage. convert returns the storage's own.
type storageError struct {
	op, name string
	err      error
}

func (e *storageError) Error() string { return fmt.Sprintf("%s %s: %v", e.op, e.name, e.err) }

func (e *storageError) Unwrap() error { return e.err }

func wrap(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return &storageError{op, name, err}
}

// storageFS shows a storage as a directory. Manifests, logs and tables are the storage's files, and
// CURRENT is its meta. Other names, such as those of temporary files, are in memory, and so they are lost
// with the storageFS; the database does not need them when it is opened again. Of the files that go to
// lost, the storage keeps the content as temporary files.
type storageFS struct {
	stor storage.Storage
	side *vfs.Mem

	// mu guards the fields below.
	mu sync.Mutex
	// files has those of the storage that were not removed.
	files map[storage.FileDesc]*sharedFile
}

// sharedFile is a file of the storage. A storage may allow one open handle for each file, so all readers share it.
type sharedFile struct {
	fd   storage.FileDesc
	size int64 // of a file that was created here; -1: unknown
	// users counts open handles. A file that is removed while it has some is removed at the end.
	users   int
	reader  storage.Reader // nil: not open
	removed bool
}

func newStorageFS(stor storage.Storage) (*storageFS, error) {
	fds, err := stor.List(storage.TypeManifest | storage.TypeJournal | storage.TypeTable)
	if err != nil {
		return nil, err
	}
	f := &storageFS{stor: stor, side: vfs.NewMem(), files: map[storage.FileDesc]*sharedFile{}}
	for _, fd := range fds {
		f.files[fd] = &sharedFile{fd: fd, size: -1}
	}
	return f, f.side.MkdirAll(storageDir)
}

// stored returns the file of the storage that has a name.
func stored(name string) (fd storage.FileDesc, ok bool) {
	dir, base := path.Split(filepath.ToSlash(name))
	if path.Clean(dir) != storageDir {
		return fd, false
	}
	return parseName(base)
}

// parseName returns the file with the given name in a directory.
func parseName(name string) (fd storage.FileDesc, ok bool) {
	number, suffix, dotted := strings.Cut(name, ".")
	if digits, manifest := strings.CutPrefix(name, "MANIFEST-"); manifest {
		number, fd.Type = digits, storage.TypeManifest
	} else if !dotted {
		return storage.FileDesc{}, false
	} else {
		switch suffix {
		case "log":
			fd.Type = storage.TypeJournal
		case "ldb", "sst":
			fd.Type = storage.TypeTable
		default:
			return storage.FileDesc{}, false
		}
	}
	n, err := strconv.ParseUint(number, 10, 63)
	fd.Num = int64(n)
	return fd, err == nil
}

func isCurrent(name string) bool { return filepath.ToSlash(name) == storageDir+"/"+currentName }

func notExist(op, name string) error { return &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist} }

// Abs implements vfs.FS.
func (f *storageFS) Abs(name string) (string, error) { return name, nil }

// Create implements vfs.FS.
func (f *storageFS) Create(name string) (vfs.File, error) {
	fd, ok := stored(name)
	if !ok {
		return f.side.Create(name)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.files[fd] != nil {
		return nil, &fs.PathError{Op: "create", Path: name, Err: fs.ErrExist}
	}
	w, err := f.stor.Create(fd)
	if err != nil {
		return nil, wrap("create", name, err)
	}
	file := &sharedFile{fd: fd, users: 1}
	f.files[fd] = file
	return &createdFile{f: f, file: file, name: name, w: w}, nil
}

// Open implements vfs.FS.
func (f *storageFS) Open(name string) (vfs.File, error) {
	if isCurrent(name) {
		content, err := f.current()
		if err != nil {
			return nil, err
		}
		return &contentFile{bytes.NewReader(content)}, nil
	}
	fd, ok := stored(name)
	if !ok {
		return f.side.Open(name)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	file := f.files[fd]
	if file == nil {
		return nil, notExist("open", name)
	}
	if file.reader == nil {
		r, err := f.stor.Open(fd)
		if err != nil {
			return nil, wrap("open", name, err)
		}
		size, err := r.Seek(0, io.SeekEnd)
		if err != nil {
			_ = r.Close()
			return nil, wrap("seek", name, err)
		}
		file.reader, file.size = r, size
	}
	file.users++
	return &openedFile{f: f, file: file, name: name, r: file.reader}, nil
}

// current returns the content of CURRENT, nothing if it is damaged: SieveDB reports that as damage, and a
// repair replaces it.
func (f *storageFS) current() ([]byte, error) {
	fd, err := f.stor.GetMeta()
	if errors.IsCorrupted(err) {
		return nil, nil
	}
	if err != nil {
		return nil, wrap("read", currentName, err)
	}
	return []byte(fd.String() + "\n"), nil
}

// release is called when a handle of file is closed.
func (f *storageFS) release(file *sharedFile) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	file.users--
	if file.users > 0 {
		return nil
	}
	var err error
	if file.reader != nil {
		err = file.reader.Close()
		file.reader = nil
	}
	if file.removed {
		if removeErr := f.stor.Remove(file.fd); err == nil {
			err = removeErr
		}
	}
	return wrap("close", file.fd.String(), err)
}

// Remove implements vfs.FS.
func (f *storageFS) Remove(name string) error {
	if isCurrent(name) {
		return nil // a storage cannot forget it; without its MANIFEST it means nothing
	}
	fd, ok := stored(name)
	if !ok {
		return f.side.Remove(name)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	file := f.files[fd]
	if file == nil {
		return notExist("remove", name)
	}
	if file.users > 0 {
		delete(f.files, fd)
		file.removed = true
		return nil
	}
	err := f.stor.Remove(fd)
	if err == nil || stderrors.Is(err, fs.ErrNotExist) {
		delete(f.files, fd)
	}
	return wrap("remove", name, err)
}

// Rename implements vfs.FS.
func (f *storageFS) Rename(oldname, newname string) error {
	from, fromStorage := stored(oldname)
	to, toStorage := stored(newname)
	switch {
	case isCurrent(newname):
		return f.setCurrent(oldname)
	case fromStorage && toStorage:
		return f.renameStored(from, to)
	case fromStorage:
		return f.putAside(from, newname)
	case toStorage:
		return f.store(oldname, newname)
	}
	return f.side.Rename(oldname, newname)
}

// store writes a file that is in memory to the storage, durably. Repairs name new tables so. A crash may
// leave part of it, which the next repair finds damaged; all else is still there then.
func (f *storageFS) store(oldname, newname string) error {
	content, err := f.readSide(oldname)
	if err != nil {
		return err
	}
	file, err := f.Create(newname)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	if err == nil {
		err = file.Sync()
	}
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		_ = f.Remove(newname) // err is what the caller needs
		return err
	}
	return f.side.Remove(oldname)
}

func (f *storageFS) setCurrent(name string) error {
	content, err := f.readSide(name)
	if err != nil {
		return err
	}
	fd, ok := parseName(strings.TrimSuffix(string(content), "\n"))
	if !ok {
		return &fs.PathError{Op: "rename", Path: name, Err: fs.ErrInvalid}
	}
	if err := f.stor.SetMeta(fd); err != nil {
		return wrap("rename", name, err)
	}
	return f.side.Remove(name)
}

func (f *storageFS) readSide(name string) ([]byte, error) {
	file, err := f.side.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	size, err := file.Size()
	if err != nil {
		return nil, err
	}
	content := make([]byte, size)
	_, err = vfs.ReadFull(file, content, 0)
	return content, err
}

func (f *storageFS) renameStored(from, to storage.FileDesc) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	file := f.files[from]
	if file == nil {
		return notExist("rename", from.String())
	}
	if err := f.stor.Rename(from, to); err != nil {
		return wrap("rename", from.String(), err)
	}
	delete(f.files, from)
	file.fd = to
	f.files[to] = file
	return nil
}

// putAside makes a temporary file of a file that gets another kind of name, which is taken from then on.
func (f *storageFS) putAside(fd storage.FileDesc, newname string) error {
	file, err := f.side.Create(newname)
	if err != nil {
		return err
	}
	if err := file.Close(); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.stor.Rename(fd, storage.FileDesc{Type: storage.TypeTemp, Num: fd.Num}); err != nil {
		return wrap("rename", fd.String(), err)
	}
	delete(f.files, fd)
	return nil
}

// Link implements vfs.FS. A storage has no links.
func (f *storageFS) Link(oldname, newname string) error {
	return &fs.PathError{Op: "link", Path: newname, Err: fs.ErrInvalid}
}

// List implements vfs.FS.
func (f *storageFS) List(dir string) ([]string, error) {
	names, err := f.side.List(dir)
	if err != nil || path.Clean(filepath.ToSlash(dir)) != storageDir {
		return names, err
	}
	// A CURRENT that cannot be read is no missing one, so that reading it gives the error.
	if _, err := f.stor.GetMeta(); !stderrors.Is(err, fs.ErrNotExist) {
		names = append(names, currentName)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for fd := range f.files {
		names = append(names, fd.String())
	}
	slices.Sort(names)
	return names, nil
}

// Stat implements vfs.FS.
func (f *storageFS) Stat(name string) (fs.FileInfo, error) {
	if isCurrent(name) {
		content, err := f.current()
		return &fileInfo{name: currentName, size: int64(len(content))}, err
	}
	fd, ok := stored(name)
	if !ok {
		return f.side.Stat(name)
	}
	f.mu.Lock()
	file := f.files[fd]
	known := file != nil && file.size >= 0
	f.mu.Unlock()
	if file == nil {
		return nil, notExist("stat", name)
	}
	if !known {
		opened, err := f.Open(name)
		if err != nil {
			return nil, err
		}
		if err := opened.Close(); err != nil {
			return nil, err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return &fileInfo{name: fd.String(), size: file.size}, nil
}

// Lstat implements vfs.FS.
func (f *storageFS) Lstat(name string) (fs.FileInfo, error) { return f.Stat(name) }

// MkdirAll implements vfs.FS.
func (f *storageFS) MkdirAll(dir string) error { return f.side.MkdirAll(dir) }

// SyncDir implements vfs.FS. Names in a storage are durable with the files.
func (f *storageFS) SyncDir(string) error { return nil }

// Lock implements vfs.FS.
func (f *storageFS) Lock(name string, shared bool) (io.Closer, error) {
	if filepath.Base(name) != lockName {
		return f.side.Lock(name, shared)
	}
	lock, err := f.stor.Lock()
	if err != nil {
		return nil, wrap("lock", name, err)
	}
	return unlocker{lock}, nil
}

type unlocker struct{ storage.Locker }

func (u unlocker) Close() error {
	u.Unlock()
	return nil
}

// createdFile is a file that is being written.
type createdFile struct {
	f    *storageFS
	file *sharedFile
	name string
	w    storage.Writer
}

func (c *createdFile) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.f.mu.Lock()
	c.file.size += int64(n)
	c.f.mu.Unlock()
	return n, wrap("write", c.name, err)
}

func (c *createdFile) Sync() error { return wrap("sync", c.name, c.w.Sync()) }

func (c *createdFile) Size() (int64, error) {
	c.f.mu.Lock()
	defer c.f.mu.Unlock()
	return c.file.size, nil
}

// ReadAt works if the storage's writers can read.
func (c *createdFile) ReadAt(p []byte, off int64) (int, error) {
	r, ok := c.w.(io.ReaderAt)
	if !ok {
		return 0, wrap("read", c.name, errors.New("leveldb: the storage does not read files that are being written"))
	}
	n, err := r.ReadAt(p, off)
	if err == io.EOF {
		return n, err
	}
	return n, wrap("read", c.name, err)
}

func (c *createdFile) Close() error {
	err := wrap("close", c.name, c.w.Close())
	if releaseErr := c.f.release(c.file); err == nil {
		err = releaseErr
	}
	return err
}

// openedFile is a handle of a file that is being read.
type openedFile struct {
	f    *storageFS
	file *sharedFile
	name string
	r    storage.Reader

	closing sync.Once
}

func (o *openedFile) ReadAt(p []byte, off int64) (int, error) {
	n, err := o.r.ReadAt(p, off)
	if err == io.EOF {
		return n, err
	}
	return n, wrap("read", o.name, err)
}

func (o *openedFile) Size() (int64, error) {
	o.f.mu.Lock()
	defer o.f.mu.Unlock()
	return o.file.size, nil
}

func (o *openedFile) Write([]byte) (int, error) { return 0, notWritable("write", o.name) }

func (o *openedFile) Sync() error { return notWritable("sync", o.name) }

func notWritable(op, name string) error {
	return &fs.PathError{Op: op, Path: name, Err: fs.ErrInvalid}
}

func (o *openedFile) Close() error {
	err := fs.ErrClosed
	o.closing.Do(func() { err = o.f.release(o.file) })
	return err
}

// contentFile is CURRENT.
type contentFile struct{ *bytes.Reader }

func (c *contentFile) Write([]byte) (int, error) { return 0, notWritable("write", currentName) }
func (c *contentFile) Sync() error               { return notWritable("sync", currentName) }
func (c *contentFile) Size() (int64, error)      { return c.Reader.Size(), nil }
func (c *contentFile) Close() error              { return nil }

type fileInfo struct {
	name string
	size int64
}

func (i *fileInfo) Name() string       { return i.name }
func (i *fileInfo) Size() int64        { return i.size }
func (i *fileInfo) Mode() fs.FileMode  { return 0o644 }
func (i *fileInfo) ModTime() time.Time { return time.Time{} }
func (i *fileInfo) IsDir() bool        { return false }
func (i *fileInfo) Sys() any           { return nil }
