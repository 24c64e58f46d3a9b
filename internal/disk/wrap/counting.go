package wrap

import (
	"path/filepath"
	"sync/atomic"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/vfs"
)

// Counting is a file system that counts the operations on another one, in total and by kind of file. The name of a file
// determines its kind. Without an observer, counting costs one to three atomic additions for each operation.
type Counting struct {
	names
	buckets  [numBuckets]bucket
	dirSyncs atomic.Uint64
	observer atomic.Pointer[func(Op)]
}

// NewCounting returns a Counting over fsys with all counts zero.
func NewCounting(fsys vfs.FS) *Counting {
	c := new(Counting)
	c.names = names{fsys, c.do}
	return c
}

// do does an operation and counts it. Links, listings, and operations on the data of a file count for nothing here.
func (c *Counting) do(op Op, do func() error) error {
	op.Err = do()
	switch {
	case op.Kind == OpSyncDir:
		c.dirSyncs.Add(1)
	case op.Err != nil:
	case op.Kind == OpRemove:
		c.bucketOf(op.Name).removes.Add(1)
	case op.Kind == OpRename:
		c.bucketOf(op.NewName).renames.Add(1)
	}
	c.observe(op)
	return op.Err
}

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
	f.b.syncs.Add(1)
	return f.c.do(Op{Kind: OpSync, Name: f.name}, f.f.Sync)
}

func (f *countingFile) Size() (int64, error) {
	return asked(&f.c.names, OpSize, f.name, func(string) (int64, error) { return f.f.Size() })
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
func (l countingLog) Cut() error { return l.c.do(Op{Kind: OpCut, Name: l.name}, l.log.Cut) }
