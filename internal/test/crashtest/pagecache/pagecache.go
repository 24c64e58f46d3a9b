// Package pagecache is a file system whose fsync fails on request and then treats the pages as real file systems do
// (Rebello et al., "Can Applications Recover from fsync Failures?", ATC 2020). Only tests import it.
//
// After a failed Sync of a file, the bytes since its last successful Sync are
//
//	model     in the cache, for readers   on the disk, after a power cut
//	Clean     as written                  zeros: the pages are marked clean and never
//	                                      written, even if a later Sync succeeds
//	Journal   as written                  as written, from the journal
//	Reverted  gone                        gone
//
// Clean models ext4 (data=ordered) and XFS, Journal models ext4 with data=journal, and Reverted
// models Btrfs. After a failed SyncDir, the names are durable under Journal. Under the other models
// they are not durable until a SyncDir succeeds.
package pagecache

import (
	"io"
	iofs "io/fs"
	"path/filepath"
	"sync"

	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/vfs"
)

// Model determines what happens to pages that could not be written.
type Model int

// The models.
const (
	Clean Model = iota
	Journal
	Reverted
	NumModels
)

// String returns the name of the model.
func (m Model) String() string { return [...]string{"clean", "journal", "reverted"}[m] }

// FS is a vfs.Mem whose Sync and SyncDir may fail.
type FS struct {
	mem   *vfs.Mem
	model Model
	// fail is called before each sync, with its number from 0, and returns its error or nil.
	fail func(n int, op wrap.Op) error

	mu    sync.Mutex
	syncs int
	lost  map[string][]span // by name: bytes that the disk lacks although a later Sync succeeded

	names sync.Mutex // held while a file is made anew, and during a SyncDir, which must not miss its name
}

// span is the range of bytes [from, to) of a file.
type span struct{ from, to int64 }

// New returns an empty file system. It calls fail before each Sync and SyncDir, with its number from
// 0; an error makes the sync fail.
func New(model Model, fail func(n int, op wrap.Op) error) *FS {
	return &FS{mem: vfs.NewMem(), model: model, fail: fail, lost: map[string][]span{}}
}

// Syncs returns the number of syncs so far, including failed ones.
func (c *FS) Syncs() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.syncs
}

// begin numbers a sync and returns its error, if fail returns one.
func (c *FS) begin(op wrap.Op) error {
	c.mu.Lock()
	n := c.syncs
	c.syncs++
	c.mu.Unlock()
	if err := c.fail(n, op); err != nil {
		return &iofs.PathError{Op: op.Kind.String(), Path: op.Name, Err: err}
	}
	return nil
}

// Crash returns the disk after a power cut.
func (c *FS) Crash() *vfs.Mem {
	c.mu.Lock()
	defer c.mu.Unlock()
	disk := c.mem.Crash()
	for name, spans := range c.lost {
		f, err := disk.Open(name)
		if err != nil {
			continue // the name is lost too
		}
		size, _ := f.Size()
		data := make([]byte, size)
		_, _ = f.ReadAt(data, 0)
		_ = f.Close()
		for _, s := range spans {
			clear(data[min(s.from, size):min(s.to, size)])
		}
		must(write(disk, name, data))
	}
	return disk
}

// write creates or replaces a file with that content, durably.
func write(mem *vfs.Mem, name string, data []byte) error {
	f, err := vfs.Replace(mem, name)
	if err == nil {
		_, err = f.Write(data)
	}
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = f.Close()
	}
	if err == nil {
		err = mem.SyncDir(filepath.Dir(name))
	}
	return err
}

func must(err error) {
	if err != nil {
		panic("pagecache: a file system in memory failed: " + err.Error())
	}
}

// Abs implements vfs.FS.
func (c *FS) Abs(name string) (string, error) { return c.mem.Abs(name) }

// Create implements vfs.FS.
func (c *FS) Create(name string) (vfs.File, error) {
	f, err := c.create(name, c.mem.Create)
	if err != nil {
		return nil, err
	}
	return f, nil
}

// CreateLog implements vfs.LogCreator. What is reserved is durable as soon as a Sync of the log succeeds, as the length
// of a file of Create is.
func (c *FS) CreateLog(name string) (vfs.File, error) {
	f, err := c.create(name, c.mem.CreateLog)
	if err != nil {
		return nil, err
	}
	return logFile{f}, nil
}

func (c *FS) create(name string, create func(name string) (vfs.File, error)) (*file, error) {
	f, err := create(name)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.lost, filepath.Clean(name))
	return &file{File: f, c: c, name: name, create: create}, nil
}

// Rename implements vfs.FS.
func (c *FS) Rename(oldname, newname string) error {
	if err := c.mem.Rename(oldname, newname); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lost[filepath.Clean(newname)] = c.lost[filepath.Clean(oldname)]
	delete(c.lost, filepath.Clean(oldname))
	return nil
}

// SyncDir implements vfs.FS.
func (c *FS) SyncDir(dir string) error {
	err := c.begin(wrap.Op{Kind: wrap.OpSyncDir, Name: dir})
	if err == nil || c.model == Journal {
		c.names.Lock()
		defer c.names.Unlock()
		if err := c.mem.SyncDir(dir); err != nil {
			return err
		}
	}
	return err
}

// Open implements vfs.FS.
func (c *FS) Open(name string) (vfs.File, error) { return c.mem.Open(name) }

// Remove implements vfs.FS.
func (c *FS) Remove(name string) error { return c.mem.Remove(name) }

// Link implements vfs.FS.
func (c *FS) Link(oldname, newname string) error { return c.mem.Link(oldname, newname) }

// List implements vfs.FS.
func (c *FS) List(dir string) ([]string, error) { return c.mem.List(dir) }

// Stat implements vfs.FS.
func (c *FS) Stat(name string) (iofs.FileInfo, error) { return c.mem.Stat(name) }

// Lstat implements vfs.FS.
func (c *FS) Lstat(name string) (iofs.FileInfo, error) { return c.mem.Lstat(name) }

// MkdirAll implements vfs.FS.
func (c *FS) MkdirAll(dir string) error { return c.mem.MkdirAll(dir) }

// Lock implements vfs.FS.
func (c *FS) Lock(name string, shared bool) (io.Closer, error) { return c.mem.Lock(name, shared) }

// file is a handle from Create.
type file struct {
	vfs.File
	c    *FS
	name string
	// create makes a file of the same kind in the file system below.
	create func(name string) (vfs.File, error)

	synced int64
}

// logFile is a file that is a vfs.LogFile.
type logFile struct{ *file }

// WriteParts implements vfs.LogFile.
func (l logFile) WriteParts(parts ...[]byte) (int, error) {
	return l.File.(vfs.LogFile).WriteParts(parts...)
}

// Cut implements vfs.LogFile.
func (l logFile) Cut() error { return l.File.(vfs.LogFile).Cut() }

func (f *file) Sync() error {
	err := f.c.begin(wrap.Op{Kind: wrap.OpSync, Name: f.name})
	size, sizeErr := f.Size()
	if sizeErr != nil {
		return sizeErr
	}
	if err == nil || f.c.model == Journal {
		if err := f.File.Sync(); err != nil {
			return err
		}
		f.synced = size
		return err
	}
	if f.c.model == Reverted {
		f.revert()
		return err
	}
	f.c.mu.Lock()
	defer f.c.mu.Unlock()
	name := filepath.Clean(f.name)
	f.c.lost[name] = append(f.c.lost[name], span{f.synced, size})
	f.synced = size // according to the kernel
	return err
}

// revert replaces the file by one that has only the bytes of the last successful Sync. They are
// durable whether or not the new directory entry is.
func (f *file) revert() {
	data := make([]byte, f.synced)
	_, _ = f.ReadAt(data, 0)
	must(f.File.Close())
	f.c.names.Lock()
	defer f.c.names.Unlock()
	must(f.c.mem.Remove(f.name))
	again, err := f.create(f.name)
	must(err)
	_, err = again.Write(data)
	must(err)
	must(again.Sync())
	f.File = again
}
