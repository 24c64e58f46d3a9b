package dbdir

import (
	"io/fs"
	"path/filepath"
	"slices"
	"sync/atomic"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/vfs"
)

// logFS is a file system in which the logs of the database in one directory are in another one, once
// the LogDir that made it is active. Until then, it changes nothing.
type logFS struct {
	vfs.FS
	dir, logs string // absolute, clean
	back      bool   // new logs are created in dir
	active    atomic.Bool
}

// paths returns where a log is, or is created, and where it may be from another time. ok is false for other files.
func (f *logFS) paths(name string) (path, earlier string, ok bool) {
	dir, file := filepath.Split(name)
	if !f.active.Load() || filepath.Clean(dir) != f.dir {
		return name, "", false
	}
	if kind, _, parsed := base.ParseFileName(file); !parsed || kind != base.FileLog {
		return name, "", false
	}
	if f.back {
		return name, filepath.Join(f.logs, file), true
	}
	return filepath.Join(f.logs, file), name, true
}

// where returns the path at which a file is.
func (f *logFS) where(name string) string {
	path, earlier, ok := f.paths(name)
	if !ok {
		return path
	}
	if _, err := f.FS.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		if _, err := f.FS.Lstat(earlier); err == nil {
			return earlier
		}
	}
	return path
}

// Create implements vfs.FS.
func (f *logFS) Create(name string) (vfs.File, error) {
	at, err := f.free(name)
	if err != nil {
		return nil, err
	}
	return f.FS.Create(at)
}

// CreateLog implements vfs.LogCreator.
func (f *logFS) CreateLog(name string) (vfs.File, error) {
	at, err := f.free(name)
	if err != nil {
		return nil, err
	}
	return vfs.CreateLog(f.FS, at)
}

// free returns where a file is created. It fails if the file is elsewhere from another time.
func (f *logFS) free(name string) (string, error) {
	at := f.where(name)
	if path, _, _ := f.paths(name); at != path {
		return "", &fs.PathError{Op: "create", Path: at, Err: fs.ErrExist}
	}
	return at, nil
}

// Open implements vfs.FS.
func (f *logFS) Open(name string) (vfs.File, error) { return f.FS.Open(f.where(name)) }

// Remove implements vfs.FS.
func (f *logFS) Remove(name string) error { return f.FS.Remove(f.where(name)) }

// Stat implements vfs.FS.
func (f *logFS) Stat(name string) (fs.FileInfo, error) { return f.FS.Stat(f.where(name)) }

// Lstat implements vfs.FS.
func (f *logFS) Lstat(name string) (fs.FileInfo, error) { return f.FS.Lstat(f.where(name)) }

// Link implements vfs.FS. Between the directories it makes a copy.
func (f *logFS) Link(oldname, newname string) error {
	from, to := f.where(oldname), f.target(newname)
	if f.sameSide(from, to) {
		return f.FS.Link(from, to)
	}
	if _, err := f.Lstat(newname); !errors.Is(err, fs.ErrNotExist) {
		return errors.CombineErrors(err, &fs.PathError{Op: "link", Path: to, Err: fs.ErrExist})
	}
	return f.copy(from, to)
}

// SyncFile implements vfs.FileSyncer.
func (f *logFS) SyncFile(name string) error { return vfs.SyncFile(f.FS, f.where(name)) }

// Rename implements vfs.FS. Between the directories it makes a copy, which appears at once, and
// removes the original: after a crash both may be there.
func (f *logFS) Rename(oldname, newname string) error {
	from, to := f.where(oldname), f.target(newname)
	if f.sameSide(from, to) {
		return f.FS.Rename(from, to)
	}
	if err := f.copy(from, to); err != nil {
		return err
	}
	return f.FS.Remove(from)
}

// target returns the path of a file that is to be made.
func (f *logFS) target(name string) string {
	path, _, _ := f.paths(name)
	return path
}

// sameSide reports whether both files are in the directory of the logs, or neither.
func (f *logFS) sameSide(a, b string) bool {
	return (filepath.Dir(a) == f.logs) == (filepath.Dir(b) == f.logs)
}

// tempSuffix ends the name of an unfinished copy. Its names are those of no engine's files.
const tempSuffix = ".copying"

// copy makes a durable copy that replaces to at once.
func (f *logFS) copy(from, to string) (err error) {
	src, err := f.FS.Open(from)
	if err != nil {
		return err
	}
	defer src.Close()
	size, err := src.Size()
	if err != nil {
		return err
	}
	temp := to + tempSuffix
	if err = remove(f.FS, temp); err == nil { // a crash may have left one
		err = vfs.Copy(f.FS, src, size, temp)
	}
	if err != nil {
		return err
	}
	if err := f.FS.Rename(temp, to); err != nil {
		return errors.CombineErrors(err, f.FS.Remove(temp))
	}
	return f.FS.SyncDir(filepath.Dir(to))
}

// List implements vfs.FS: the directory of the database has the logs too.
func (f *logFS) List(dir string) ([]string, error) {
	names, err := f.FS.List(dir)
	if err != nil || !f.active.Load() || filepath.Clean(dir) != f.dir {
		return names, err
	}
	others, err := logsIn(f.FS, f.logs)
	if err != nil {
		return nil, err
	}
	names = append(names, others...)
	slices.Sort(names)
	return slices.Compact(names), nil
}

// logsIn returns the names of the logs in a directory.
func logsIn(fsys vfs.FS, dir string) (logs []string, err error) {
	names, err := fsys.List(dir)
	for _, name := range names {
		if kind, _, ok := base.ParseFileName(name); ok && kind == base.FileLog {
			logs = append(logs, name)
		}
	}
	return logs, err
}

// SyncDir implements vfs.FS. With the directory of the database it syncs that of the logs.
func (f *logFS) SyncDir(dir string) error {
	if f.active.Load() && filepath.Clean(dir) == f.dir {
		if err := f.FS.SyncDir(f.logs); err != nil {
			return err
		}
	}
	return f.FS.SyncDir(dir)
}
