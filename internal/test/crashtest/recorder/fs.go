package recorder

import (
	"io"
	iofs "io/fs"
	"slices"
	"sync"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/vfs"
)

// FS is a file system in memory that records the operations that change it. Reads are not recorded,
// and neither are failed operations, because they have no effect on the vfs.Mem below.
type FS struct {
	start Image
	mem   *vfs.Mem

	mu    sync.Mutex // makes an operation and its entry in the trace one step
	ops   []Op
	files []*recordedFile
}

// Op is an operation that changed the disk.
type Op struct {
	Kind          wrap.OpKind
	Name, NewName string
	// Offset and Length are those of a write, in bytes. A reservation adds Length zeros at Offset.
	Offset, Length int

	file int // of a create, write, reservation, cut or sync: the index of the file created, or byName
}

// byName says that a sync is of the file that has the name.
const byName = -1

// recordedFile is a created file.
type recordedFile struct {
	data     []byte // all bytes written; it only grows, so states may share its bytes
	reserved int    // the length of a log of CreateLog, with the zeros behind data; 0 after a cut
}

// New returns an FS with the files and directories of start, all of them durable. The zero Image is an empty disk.
func New(start Image) *FS { return &FS{start: start, mem: start.Mem()} }

// Len returns the number of operations recorded so far, which is the present cut.
func (r *FS) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.ops)
}

// Mem returns the file system below, for operations that are not recorded.
func (r *FS) Mem() *vfs.Mem { return r.mem }

// Trace returns the operations recorded so far.
func (r *FS) Trace() *Trace {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := &Trace{start: r.start, Ops: r.ops[:len(r.ops):len(r.ops)]}
	for _, f := range r.files {
		t.data = append(t.data, f.data)
	}
	return t
}

// record does an operation and records it if it succeeded.
func (r *FS) record(op Op, do func() error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := do(); err != nil {
		return err
	}
	r.ops = append(r.ops, op)
	return nil
}

// Abs implements vfs.FS.
func (r *FS) Abs(name string) (string, error) { return r.mem.Abs(name) }

// Create implements vfs.FS.
func (r *FS) Create(name string) (vfs.File, error) {
	f, err := r.create(name, r.mem.Create)
	if err != nil {
		return nil, err
	}
	return f, nil
}

// CreateLog implements vfs.LogCreator.
func (r *FS) CreateLog(name string) (vfs.File, error) {
	f, err := r.create(name, r.mem.CreateLog)
	if err != nil {
		return nil, err
	}
	return &recordingLog{f}, nil
}

func (r *FS) create(name string, create func(name string) (vfs.File, error)) (*recordingFile, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f, err := create(name)
	if err != nil {
		return nil, err
	}
	id := len(r.files)
	r.files = append(r.files, &recordedFile{})
	r.ops = append(r.ops, Op{Kind: wrap.OpCreate, Name: name, file: id})
	return &recordingFile{File: f, r: r, id: id, name: name}, nil
}

// Open implements vfs.FS.
func (r *FS) Open(name string) (vfs.File, error) { return r.mem.Open(name) }

// Remove implements vfs.FS.
func (r *FS) Remove(name string) error {
	return r.record(Op{Kind: wrap.OpRemove, Name: name}, func() error { return r.mem.Remove(name) })
}

// Rename implements vfs.FS.
func (r *FS) Rename(oldname, newname string) error {
	return r.record(Op{Kind: wrap.OpRename, Name: oldname, NewName: newname},
		func() error { return r.mem.Rename(oldname, newname) })
}

// Link implements vfs.FS.
func (r *FS) Link(oldname, newname string) error {
	return r.record(Op{Kind: wrap.OpLink, Name: oldname, NewName: newname},
		func() error { return r.mem.Link(oldname, newname) })
}

// List implements vfs.FS.
func (r *FS) List(dir string) ([]string, error) { return r.mem.List(dir) }

// Stat implements vfs.FS.
func (r *FS) Stat(name string) (iofs.FileInfo, error) { return r.mem.Stat(name) }

// Lstat implements vfs.FS.
func (r *FS) Lstat(name string) (iofs.FileInfo, error) { return r.mem.Lstat(name) }

// MkdirAll implements vfs.FS.
func (r *FS) MkdirAll(dir string) error {
	return r.record(Op{Kind: wrap.OpMkdirAll, Name: dir}, func() error { return r.mem.MkdirAll(dir) })
}

// SyncDir implements vfs.FS.
func (r *FS) SyncDir(dir string) error {
	return r.record(Op{Kind: wrap.OpSyncDir, Name: dir}, func() error { return r.mem.SyncDir(dir) })
}

// SyncFile implements vfs.FileSyncer.
func (r *FS) SyncFile(name string) error {
	return r.record(Op{Kind: wrap.OpSync, Name: name, file: byName}, func() error { return r.mem.SyncFile(name) })
}

// Lock implements vfs.FS. If it creates the file, the trace has that creation. The lock itself leaves
// nothing on the disk.
func (r *FS) Lock(name string, shared bool) (io.Closer, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, missing := r.mem.Stat(name)
	l, err := r.mem.Lock(name, shared)
	if err == nil && missing != nil {
		r.ops = append(r.ops, Op{Kind: wrap.OpCreate, Name: name, file: len(r.files)})
		r.files = append(r.files, &recordedFile{})
	}
	return l, err
}

type recordingFile struct {
	vfs.File
	r    *FS
	id   int
	name string
}

func (f *recordingFile) Write(p []byte) (int, error) {
	f.r.mu.Lock()
	defer f.r.mu.Unlock()
	return f.writeLocked(p)
}

func (f *recordingFile) writeLocked(p []byte) (int, error) {
	n, err := f.File.Write(p)
	if n > 0 {
		file := f.r.files[f.id]
		f.r.ops = append(f.r.ops, Op{Kind: wrap.OpWrite, Name: f.name, Offset: len(file.data), Length: n, file: f.id})
		file.data = append(file.data, p[:n]...)
	}
	return n, err
}

func (f *recordingFile) Sync() error {
	return f.r.record(Op{Kind: wrap.OpSync, Name: f.name, file: f.id}, f.File.Sync)
}

// recordingLog is a vfs.LogFile. Its reservations and its end are operations of their own.
type recordingLog struct{ *recordingFile }

func (l *recordingLog) Write(p []byte) (int, error) {
	l.r.mu.Lock()
	defer l.r.mu.Unlock()
	file := l.r.files[l.id]
	from := file.reserved
	if to := int(base.LogReserve(int64(from), int64(len(file.data)+len(p)))); to > from {
		l.r.ops = append(l.r.ops, Op{Kind: wrap.OpReserve, Name: l.name, Offset: from, Length: to - from, file: l.id})
		file.reserved = to
	}
	return l.writeLocked(p)
}

// WriteParts implements vfs.LogFile.
func (l *recordingLog) WriteParts(parts ...[]byte) (int, error) {
	return l.Write(slices.Concat(parts...))
}

// Cut implements vfs.LogFile.
func (l *recordingLog) Cut() error { return l.end(l.File.(vfs.LogFile).Cut) }

func (l *recordingLog) Close() error { return l.end(l.File.Close) }

// end does an operation that removes the zeros behind the bytes.
func (l *recordingLog) end(do func() error) error {
	l.r.mu.Lock()
	defer l.r.mu.Unlock()
	if err := do(); err != nil {
		return err
	}
	if file := l.r.files[l.id]; file.reserved > 0 {
		file.reserved = 0
		l.r.ops = append(l.r.ops, Op{Kind: wrap.OpCut, Name: l.name, file: l.id})
	}
	return nil
}
