package order

import (
	"fmt"
	"io"
	iofs "io/fs"
	"path/filepath"
	"slices"
	"sync"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/vfs"
)

// FS checks the operations on another file system. It holds no lock during an operation, so the hook
// of a Faulty below it may block.
type FS struct {
	fs     vfs.FS
	report func(violation string) // may be nil

	mu         sync.Mutex
	dirs       map[string]*dir
	violations []string
}

// New returns a checker over fsys.
func New(fsys vfs.FS) *FS { return NewReporting(fsys, nil) }

// NewReporting returns a checker that also calls report for each violation, with a lock held: report
// must not call the checker.
func NewReporting(fsys vfs.FS, report func(violation string)) *FS {
	return &FS{fs: fsys, report: report, dirs: map[string]*dir{}}
}

// Unwrap returns the wrapped file system.
func (c *FS) Unwrap() vfs.FS { return c.fs }

// Violations returns the violations found so far.
func (c *FS) Violations() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.violations)
}

func (c *FS) violatedLocked(rule int, format string, args ...any) {
	v := fmt.Sprintf("rule %d: ", rule) + fmt.Sprintf(format, args...)
	c.violations = append(c.violations, v)
	if c.report != nil {
		c.report(v)
	}
}

// dir is the known state of a directory. A name in neither map has not changed since the checker found
// the directory; if it exists, it is durable.
type dir struct {
	entries, durable map[string]*file // nil if the name does not exist any more
	// syncs counts the SyncDirs that began. covered has the last SyncDir that made a name durable,
	// because a SyncDir that began earlier and ends later proves nothing about newer changes.
	syncs   uint64
	covered map[string]uint64
}

// found stands for the file of a name that has not changed since the checker found the directory.
var found = &file{}

func (c *FS) dirLocked(path string) *dir {
	path = filepath.Clean(path)
	d := c.dirs[path]
	if d == nil {
		d = &dir{entries: map[string]*file{}, durable: map[string]*file{}, covered: map[string]uint64{}}
		c.dirs[path] = d
	}
	return d
}

// get returns the file that has the name now, and the one that has it after a power cut if only durable names survive.
func (d *dir) get(name string) (now, durable *file) {
	now, ok := d.entries[name]
	if !ok {
		return found, found
	}
	return now, d.durable[name]
}

func (d *dir) set(name string, f *file) {
	if _, ok := d.entries[name]; !ok {
		d.durable[name] = found
	}
	d.entries[name] = f
}

// file is a file that was created through the checker.
type file struct {
	name            string
	written, synced int64
	failed          string // the first append or sync that failed
	open            bool   // for writing
	// reserved says that zeros may follow the bytes of a log, also after a power cut. cut is set once it ends behind
	// its bytes; a Sync makes that durable.
	reserved, cut bool

	kind base.FileKind
	data []byte // the bytes written, of CURRENT or a temporary file
	// edits has the complete edits of a MANIFEST.
	edits editLog
}

func (f *file) whole() bool {
	return f == found || f != nil && f.failed == "" && f.synced == f.written && !f.reserved
}

// syncedTo notes a sync of the first bytes, which began when the end of the file was as cut says.
func (f *file) syncedTo(covered int64, cut bool) {
	f.synced = max(f.synced, covered)
	if cut {
		f.reserved = false
	}
}

// Abs implements vfs.FS.
func (c *FS) Abs(name string) (string, error) { return c.fs.Abs(name) }

// Create implements vfs.FS.
func (c *FS) Create(name string) (vfs.File, error) {
	f, err := c.fs.Create(name)
	if err != nil {
		return nil, err
	}
	return c.created(name, f), nil
}

// CreateLog implements vfs.LogCreator.
func (c *FS) CreateLog(name string) (vfs.File, error) {
	f, err := vfs.CreateLog(c.fs, name)
	if err != nil {
		return nil, err
	}
	file := c.created(name, f)
	if l, ok := f.(vfs.LogFile); ok {
		return &checkedLog{file, l}, nil
	}
	return file, nil
}

func (c *FS) created(name string, f vfs.File) *checkedFile {
	c.mu.Lock()
	defer c.mu.Unlock()
	kind, _, ok := base.ParseFileName(filepath.Base(name))
	if !ok {
		kind = base.FileInfoLog // not checked
	}
	d := c.dirLocked(filepath.Dir(name))
	node := &file{name: name, kind: kind, open: true}
	d.set(filepath.Base(name), node)
	return &checkedFile{File: f, c: c, node: node}
}

// Open implements vfs.FS.
func (c *FS) Open(name string) (vfs.File, error) { return c.fs.Open(name) }

// Remove implements vfs.FS.
func (c *FS) Remove(name string) error {
	c.mu.Lock()
	c.checkRemoveLocked(name)
	c.mu.Unlock()
	if err := c.fs.Remove(name); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dirLocked(filepath.Dir(name)).set(filepath.Base(name), nil)
	return nil
}

// Rename implements vfs.FS.
func (c *FS) Rename(oldname, newname string) error {
	c.mu.Lock()
	from, to := c.dirLocked(filepath.Dir(oldname)), c.dirLocked(filepath.Dir(newname))
	node, _ := from.get(filepath.Base(oldname))
	if filepath.Base(newname) == base.CurrentName {
		c.checkCurrentLocked(to, oldname, node)
	}
	if filepath.Base(newname) == base.ClosedName {
		c.checkClosedLocked(to, oldname, node)
	}
	c.checkDirLocked(oldname)
	c.mu.Unlock()
	if err := c.fs.Rename(oldname, newname); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if moved := c.dirs[filepath.Clean(oldname)]; moved != nil {
		delete(c.dirs, filepath.Clean(oldname))
		c.dirs[filepath.Clean(newname)] = moved
	}
	from.set(filepath.Base(oldname), nil)
	to.set(filepath.Base(newname), node)
	return nil
}

// Link implements vfs.FS.
func (c *FS) Link(oldname, newname string) error {
	if err := c.fs.Link(oldname, newname); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	node, _ := c.dirLocked(filepath.Dir(oldname)).get(filepath.Base(oldname))
	c.dirLocked(filepath.Dir(newname)).set(filepath.Base(newname), node)
	return nil
}

// SyncFile implements vfs.FileSyncer.
func (c *FS) SyncFile(name string) error {
	c.mu.Lock()
	node, _ := c.dirLocked(filepath.Dir(name)).get(filepath.Base(name))
	covered, cut := int64(0), false
	if node != nil {
		covered, cut = node.written, node.cut
	}
	c.mu.Unlock()
	if err := vfs.SyncFile(c.fs, name); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if node != nil && node != found {
		node.syncedTo(covered, cut)
	}
	return nil
}

// SyncDir implements vfs.FS.
func (c *FS) SyncDir(path string) error {
	c.mu.Lock()
	d := c.dirLocked(path)
	d.syncs++
	began := d.syncs
	before := make(map[string]*file, len(d.entries))
	for name, f := range d.entries {
		before[name] = f
	}
	c.mu.Unlock()
	if err := c.fs.SyncDir(path); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, f := range before {
		if began < d.covered[name] {
			continue
		}
		d.covered[name] = began
		if d.entries[name] == nil && f == nil {
			// The removal is durable. Without an entry, the name would count as found.
			d.durable[name] = nil
			continue
		}
		d.durable[name] = f
	}
	return nil
}

// Lock implements vfs.FS. The files that exist after an exclusive lock count as found.
func (c *FS) Lock(name string, shared bool) (io.Closer, error) {
	l, err := c.fs.Lock(name, shared)
	if err == nil && !shared {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.dirs, filepath.Clean(filepath.Dir(name)))
	}
	return l, err
}

// List implements vfs.FS.
func (c *FS) List(dir string) ([]string, error) { return c.fs.List(dir) }

// Stat implements vfs.FS.
func (c *FS) Stat(name string) (iofs.FileInfo, error) { return c.fs.Stat(name) }

// Lstat implements vfs.FS.
func (c *FS) Lstat(name string) (iofs.FileInfo, error) { return c.fs.Lstat(name) }

// MkdirAll implements vfs.FS.
func (c *FS) MkdirAll(dir string) error { return c.fs.MkdirAll(dir) }

// checkedFile is a handle from Create.
type checkedFile struct {
	vfs.File
	c    *FS
	node *file
}

func (f *checkedFile) Write(p []byte) (int, error) {
	f.c.beforeTouch(f.node, "append")
	n, err := f.File.Write(p)
	f.c.mu.Lock()
	defer f.c.mu.Unlock()
	f.node.written += int64(n)
	switch f.node.kind {
	case base.FileCurrent, base.FileTemp:
		f.node.data = append(f.node.data, p[:n]...)
	case base.FileManifest:
		edit := f.node.edits.add(p[:n], f.node.written)
		f.c.checkEditLocked(f.node.name, edit)
	}
	if err != nil && f.node.failed == "" && f.node.open {
		f.node.failed = "append"
	}
	return n, err
}

func (f *checkedFile) Sync() error {
	f.c.beforeTouch(f.node, "sync")
	f.c.mu.Lock()
	covered, cut := f.node.written, f.node.cut
	f.c.mu.Unlock()
	err := f.File.Sync()
	f.c.mu.Lock()
	defer f.c.mu.Unlock()
	if err != nil {
		if f.node.failed == "" && f.node.open {
			f.node.failed = "sync"
		}
		return err
	}
	f.node.syncedTo(covered, cut)
	f.node.edits.synced(covered)
	if f.node.kind == base.FileLog && covered > 0 {
		f.c.checkLogSyncLocked(f.node)
	}
	return nil
}

// beforeTouch checks rules 5 and 6.
func (c *FS) beforeTouch(n *file, op string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !n.open {
		c.violatedLocked(6, "%s of %s after its Close", op, n.name)
	} else if n.failed != "" {
		c.violatedLocked(5, "%s of %s after a failed %s", op, n.name, n.failed)
	}
}

func (f *checkedFile) Close() error {
	err := f.File.Close()
	f.c.mu.Lock()
	defer f.c.mu.Unlock()
	f.node.open = false
	return err
}

// checkedLog is a handle from CreateLog that is a vfs.LogFile.
type checkedLog struct {
	*checkedFile
	log vfs.LogFile
}

func (l *checkedLog) Write(p []byte) (int, error) {
	l.c.mu.Lock()
	l.node.reserved = l.node.reserved || len(p) > 0 && l.node.open && !l.node.cut
	l.c.mu.Unlock()
	return l.checkedFile.Write(p)
}

// WriteParts implements vfs.LogFile.
func (l *checkedLog) WriteParts(parts ...[]byte) (int, error) {
	return l.Write(slices.Concat(parts...))
}

// Cut implements vfs.LogFile.
func (l *checkedLog) Cut() error {
	l.c.beforeTouch(l.node, "cut")
	err := l.log.Cut()
	l.c.mu.Lock()
	defer l.c.mu.Unlock()
	switch {
	case err == nil:
		l.node.cut = true
	case l.node.failed == "" && l.node.open:
		l.node.failed = "cut"
	}
	return err
}

func (l *checkedLog) Close() error {
	err := l.checkedFile.Close()
	if err == nil {
		l.c.mu.Lock()
		defer l.c.mu.Unlock()
		l.node.cut = true
	}
	return err
}
