package follow

import (
	"io/fs"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/vfs"
)

// pins are the open tables of a follower. As a file system, it can open them again after the writer has removed them.
// Its methods are safe for concurrent use.
type pins struct {
	vfs.FS // of the database

	mu    sync.Mutex
	files map[*version.FileMeta]*pin
	paths map[string]*pin // for each path the table that was opened last
}

// pin is an open table.
type pin struct {
	vfs.File
	path string
	info fs.FileInfo
	// tables is the number of FileMetas in versions that describe the table. users is the same plus the number of open
	// Files that Open has returned. pins.mu guards both.
	tables, users int
}

func newPins(fsys vfs.FS) *pins {
	return &pins{FS: fsys, files: map[*version.FileMeta]*pin{}, paths: map[string]*pin{}}
}

// add opens the tables of v that are not open, and returns them. No reader has these tables yet.
func (p *pins) add(dir string, v *version.Version) (added []*version.FileMeta, err error) {
	p.mu.Lock()
	v.AllFiles(func(_ int, f *version.FileMeta) {
		if p.files[f] == nil {
			added = append(added, f)
		}
	})
	p.mu.Unlock()
	for i, f := range added {
		if p.share(dir, f) {
			continue
		}
		one := &pin{tables: 1, users: 1}
		if one.File, err = p.openTable(dir, f); err != nil {
			return added[:i], err
		}
		one.path = filepath.Join(dir, f.Name())
		if one.info, err = p.Lstat(one.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return added[:i], errors.CombineErrors(err, one.File.Close())
		}
		p.mu.Lock()
		p.files[f], p.paths[one.path] = one, one
		p.mu.Unlock()
	}
	return added, nil
}

// share uses the open file of a table for another FileMeta that describes it, which a new MANIFEST has.
func (p *pins) share(dir string, f *version.FileMeta) bool {
	for _, old := range []bool{false, true} {
		f.OldSuffix = old
		path := filepath.Join(dir, f.Name())
		p.mu.Lock()
		one := p.paths[path]
		p.mu.Unlock()
		if one == nil {
			continue
		}
		if info, err := p.Lstat(path); err != nil || !one.is(info) {
			continue
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.paths[path] == one {
			one.tables++
			one.users++
			p.files[f] = one
			return true
		}
	}
	f.OldSuffix = false
	return false
}

// is reports whether info describes the file.
func (p *pin) is(info fs.FileInfo) bool { return p.info != nil && vfs.SameFile(p.info, info) }

// has reports whether info describes the table that is open under a path.
func (p *pins) has(path string, info fs.FileInfo) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	one := p.paths[path]
	return one != nil && one.is(info)
}

// openTable opens a table, and finds out which suffix its file has.
func (p *pins) openTable(dir string, f *version.FileMeta) (vfs.File, error) {
	file, err := p.FS.Open(filepath.Join(dir, f.Name()))
	if !errors.Is(err, fs.ErrNotExist) {
		return file, err
	}
	f.OldSuffix = true
	file, oldErr := p.FS.Open(filepath.Join(dir, f.Name()))
	if oldErr != nil {
		f.OldSuffix = false
		return nil, err
	}
	return file, nil
}

// drop closes tables. Files that Open has returned stay open until they are closed.
func (p *pins) drop(files []*version.FileMeta) {
	for _, f := range files {
		p.mu.Lock()
		one := p.files[f]
		delete(p.files, f)
		if one != nil {
			if one.tables--; one.tables == 0 && p.paths[one.path] == one {
				delete(p.paths, one.path)
			}
		}
		p.mu.Unlock()
		if one != nil {
			_ = p.leave(one) // it was only read
		}
	}
}

// leave closes a table if nothing uses it any more.
func (p *pins) leave(one *pin) error {
	p.mu.Lock()
	one.users--
	last := one.users == 0
	p.mu.Unlock()
	if last {
		return one.File.Close()
	}
	return nil
}

// Open opens a file, or the table that is open under this name.
func (p *pins) Open(name string) (vfs.File, error) {
	p.mu.Lock()
	one := p.paths[name]
	if one != nil {
		one.users++
	}
	p.mu.Unlock()
	if one == nil {
		return p.FS.Open(name)
	}
	return &pinned{pin: one, pins: p}, nil
}

// pinned is a File of a pin.
type pinned struct {
	*pin
	pins   *pins
	closed atomic.Bool
}

func (f *pinned) ReadAt(b []byte, off int64) (int, error) {
	if f.closed.Load() {
		return 0, fs.ErrClosed
	}
	return f.pin.ReadAt(b, off)
}

func (f *pinned) Size() (int64, error) {
	if f.closed.Load() {
		return 0, fs.ErrClosed
	}
	return f.pin.Size()
}

// Close closes this File.
func (f *pinned) Close() error {
	if f.closed.Swap(true) {
		return fs.ErrClosed
	}
	return f.pins.leave(f.pin)
}

// count returns the number of tables that versions have.
func (p *pins) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.files)
}

// close closes all tables.
func (p *pins) close() (err error) {
	p.mu.Lock()
	files := p.files
	p.files, p.paths = map[*version.FileMeta]*pin{}, map[string]*pin{}
	p.mu.Unlock()
	for _, one := range files {
		err = errors.CombineErrors(err, p.leave(one))
	}
	return err
}
