package wrap

import (
	"io"
	"io/fs"
	"path/filepath"
	"sync/atomic"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/vfs"
)

// Counting is a file system that counts the operations on another one, in total and by kind of file. The name of a file
// determines its kind. Without an observer, counting costs one to three atomic additions for each operation.
type Counting struct {
	fs       vfs.FS
	buckets  [numBuckets]bucket
	dirSyncs atomic.Uint64
	observer atomic.Pointer[func(Op)]
}

// NewCounting returns a Counting over fsys with all counts zero.
func NewCounting(fsys vfs.FS) *Counting { return &Counting{fs: fsys} }

// Observe makes the Counting call f after each operation; nil removes the observer. f is called on the
// goroutine of the operation, so it must be safe for concurrent use.
func (c *Counting) Observe(f func(Op)) {
	if f == nil {
		c.observer.Store(nil)
		return
	}
	c.observer.Store(&f)
}

func (c *Counting) observe(op Op) {
	if f := c.observer.Load(); f != nil {
		(*f)(op)
	}
}

// Snapshot returns the present counts. Concurrent operations may be included in some counts and not yet in others.
func (c *Counting) Snapshot() Snapshot {
	var s Snapshot
	for i := range s.kinds {
		s.kinds[i] = c.buckets[i].load()
		s.Total = s.Total.plus(s.kinds[i])
	}
	s.Other = c.buckets[otherBucket].load()
	s.Total = s.Total.plus(s.Other)
	s.DirSyncs = c.dirSyncs.Load()
	return s
}

func (c *Counting) bucketOf(name string) *bucket {
	kind, _, ok := base.ParseFileName(filepath.Base(name))
	if !ok || int(kind) >= otherBucket {
		return &c.buckets[otherBucket]
	}
	return &c.buckets[kind]
}

// Abs implements FS. It touches no file and is not counted.
func (c *Counting) Abs(name string) (string, error) { return c.fs.Abs(name) }

// Create implements FS.
func (c *Counting) Create(name string) (vfs.File, error) { return c.create(name, c.fs.Create) }

// CreateLog implements vfs.LogCreator. It counts as Create does.
func (c *Counting) CreateLog(name string) (vfs.File, error) {
	return c.create(name, func(name string) (vfs.File, error) { return vfs.CreateLog(c.fs, name) })
}

func (c *Counting) create(name string, create func(string) (vfs.File, error)) (vfs.File, error) {
	f, err := create(name)
	b := c.bucketOf(name)
	if err == nil {
		b.creates.Add(1)
	}
	return c.opened(f, err, b, Op{Kind: OpCreate, Name: name})
}

// Open implements FS.
func (c *Counting) Open(name string) (vfs.File, error) {
	f, err := c.fs.Open(name)
	b := c.bucketOf(name)
	if err == nil {
		b.opens.Add(1)
	}
	return c.opened(f, err, b, Op{Kind: OpOpen, Name: name})
}

func (c *Counting) opened(f vfs.File, err error, b *bucket, op Op) (vfs.File, error) {
	op.Err = err
	if err != nil {
		c.observe(op)
		return nil, err
	}
	b.openFiles.Add(1)
	c.observe(op)
	file := &countingFile{c: c, f: f, b: b, name: op.Name}
	if l, ok := f.(vfs.LogFile); ok {
		return countingLog{file, l}, nil
	}
	return file, nil
}

// Remove implements FS.
func (c *Counting) Remove(name string) error {
	err := c.fs.Remove(name)
	if err == nil {
		c.bucketOf(name).removes.Add(1)
	}
	c.observe(Op{Kind: OpRemove, Name: name, Err: err})
	return err
}

// Rename implements FS.
func (c *Counting) Rename(oldname, newname string) error {
	err := c.fs.Rename(oldname, newname)
	if err == nil {
		c.bucketOf(newname).renames.Add(1)
	}
	c.observe(Op{Kind: OpRename, Name: oldname, NewName: newname, Err: err})
	return err
}

// Link implements FS.
func (c *Counting) Link(oldname, newname string) error {
	err := c.fs.Link(oldname, newname)
	c.observe(Op{Kind: OpLink, Name: oldname, NewName: newname, Err: err})
	return err
}

// List implements FS.
func (c *Counting) List(dir string) ([]string, error) {
	names, err := c.fs.List(dir)
	c.observe(Op{Kind: OpList, Name: dir, Err: err})
	return names, err
}

// Stat implements FS.
func (c *Counting) Stat(name string) (fs.FileInfo, error) {
	info, err := c.fs.Stat(name)
	c.observe(Op{Kind: OpStat, Name: name, Err: err})
	return info, err
}

// Lstat implements FS.
func (c *Counting) Lstat(name string) (fs.FileInfo, error) {
	info, err := c.fs.Lstat(name)
	c.observe(Op{Kind: OpStat, Name: name, Err: err})
	return info, err
}

// MkdirAll implements FS.
func (c *Counting) MkdirAll(dir string) error {
	err := c.fs.MkdirAll(dir)
	c.observe(Op{Kind: OpMkdirAll, Name: dir, Err: err})
	return err
}

// SyncDir implements FS.
func (c *Counting) SyncDir(dir string) error {
	err := c.fs.SyncDir(dir)
	c.dirSyncs.Add(1)
	c.observe(Op{Kind: OpSyncDir, Name: dir, Err: err})
	return err
}

// SyncFile implements vfs.FileSyncer. It is observed, but counts for no kind of file.
func (c *Counting) SyncFile(name string) error {
	err := vfs.SyncFile(c.fs, name)
	c.observe(Op{Kind: OpSync, Name: name, Err: err})
	return err
}

// Lock implements FS.
func (c *Counting) Lock(name string, shared bool) (io.Closer, error) {
	l, err := c.fs.Lock(name, shared)
	c.observe(Op{Kind: OpLock, Name: name, Err: err})
	return l, err
}

// countingFile counts in the bucket of the name with which it was opened.
type countingFile struct {
	c       *Counting
	f       vfs.File
	b       *bucket
	name    string
	written atomic.Int64 // bytes appended through this handle
	closed  atomic.Bool
}

func (f *countingFile) ReadAt(p []byte, off int64) (int, error) {
	n, err := f.f.ReadAt(p, off)
	f.b.reads.Add(1)
	f.b.readBytes.Add(uint64(n))
	f.c.observe(Op{Kind: OpRead, Name: f.name, Offset: off, Length: len(p), N: n, Err: err})
	return n, err
}

func (f *countingFile) Write(p []byte) (int, error) {
	n, err := f.f.Write(p)
	f.wrote(len(p), n, err)
	return n, err
}

// wrote counts a Write of length bytes, of which n were written.
func (f *countingFile) wrote(length, n int, err error) {
	f.b.writes.Add(1)
	f.b.writeBytes.Add(uint64(n))
	end := f.written.Add(int64(n))
	f.c.observe(Op{Kind: OpWrite, Name: f.name, Offset: end - int64(n), Length: length, N: n, Err: err})
}

func (f *countingFile) Sync() error {
	err := f.f.Sync()
	f.b.syncs.Add(1)
	f.c.observe(Op{Kind: OpSync, Name: f.name, Err: err})
	return err
}

func (f *countingFile) Size() (int64, error) {
	size, err := f.f.Size()
	f.c.observe(Op{Kind: OpSize, Name: f.name, Err: err})
	return size, err
}

func (f *countingFile) Close() error {
	err := f.f.Close()
	if !f.closed.Swap(true) {
		f.b.openFiles.Add(-1) // a failed Close closes the file too; see vfs.File
	}
	f.c.observe(Op{Kind: OpClose, Name: f.name, Err: err})
	return err
}

// countingLog is a countingFile over a vfs.LogFile. It observes Cut, which counts for nothing.
type countingLog struct {
	*countingFile
	log vfs.LogFile
}

// WriteParts implements vfs.LogFile. It counts as one Write.
func (l countingLog) WriteParts(parts ...[]byte) (int, error) {
	n, err := l.log.WriteParts(parts...)
	length := 0
	for _, p := range parts {
		length += len(p)
	}
	l.wrote(length, n, err)
	return n, err
}

// Cut implements vfs.LogFile.
func (l countingLog) Cut() error {
	err := l.log.Cut()
	l.c.observe(Op{Kind: OpCut, Name: l.name, Err: err})
	return err
}
