package storage

import (
	"io"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/sievedb/sievedb/vfs"
)

const lockName = "LOCK"

// directFS is the system's file system for the database in a fileStorage, which holds the lock of the
// directory already.
type directFS struct {
	vfs.FS
	s *fileStorage
	// side has the CURRENT that a read-only storage shows, since it cannot mend what a crash of goleveldb
	// left. Nil: the directory's own.
	side *vfs.Mem
}

func newDirectFS(s *fileStorage) directFS {
	d := directFS{FS: s.system, s: s}
	if !s.readOnly {
		return d
	}
	fd, err := s.GetMeta()
	if err != nil {
		return d // SieveDB reports what is wrong with the directory's own
	}
	side := vfs.NewMem()
	if f, err := side.Create(currentName); err == nil {
		if _, err := io.WriteString(f, fd.String()+"\n"); err == nil && f.Close() == nil {
			d.side = side
		}
	}
	return d
}

// Open implements vfs.FS.
func (d directFS) Open(name string) (vfs.File, error) {
	if d.side != nil && filepath.Base(name) == currentName {
		return d.side.Open(currentName)
	}
	return d.FS.Open(name)
}

// Lstat implements vfs.FS.
func (d directFS) Lstat(name string) (fs.FileInfo, error) {
	if d.side != nil && filepath.Base(name) == currentName {
		return d.side.Lstat(currentName)
	}
	return d.FS.Lstat(name)
}

// List implements vfs.FS.
func (d directFS) List(dir string) ([]string, error) {
	names, err := d.FS.List(dir)
	if err != nil || d.side == nil {
		return names, err
	}
	own, err := d.Abs(d.s.path)
	if at, found := slices.BinarySearch(names, currentName); err == nil && !found && filepath.Clean(dir) == own {
		names = slices.Insert(names, at, currentName)
	}
	return names, err
}

// Lock acquires the lock of the storage for the file LOCK.
func (d directFS) Lock(name string, shared bool) (io.Closer, error) {
	if filepath.Base(name) != lockName {
		return d.FS.Lock(name, shared)
	}
	lock, err := d.s.Lock()
	if err != nil {
		return nil, err
	}
	return unlocker{lock}, nil
}

// Remove leaves the file LOCK, because a removed file excludes no other process.
func (d directFS) Remove(name string) error {
	if filepath.Base(name) == lockName {
		return nil
	}
	return d.FS.Remove(name)
}

// CreateLog implements vfs.LogCreator.
func (d directFS) CreateLog(name string) (vfs.File, error) { return vfs.CreateLog(d.FS, name) }

// SyncFile implements vfs.FileSyncer.
func (d directFS) SyncFile(name string) error { return vfs.SyncFile(d.FS, name) }

type unlocker struct{ Locker }

func (u unlocker) Close() error {
	u.Unlock()
	return nil
}
