package db

import (
	"io/fs"
	"path/filepath"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/dbdir"
	"github.com/sievedb/sievedb/internal/disk/foreign"
	"github.com/sievedb/sievedb/internal/work/changes"
	"github.com/sievedb/sievedb/internal/work/checkpoint"
)

// Destroy removes the database in dir: the files whose names belong to the format, and the
// directory if it is empty then. The same goes for the directory of its logs (Options.LogDir), if it is
// not lost. A missing directory is no error. The error is ErrLocked if the database is open, and ErrForeign
// if the directory belongs to another engine. A database that was moved needs LogDir until it has been opened.
// Destroy uses only Options.FS and LogDir; nil opts mean the operating system's file system.
func Destroy(dir string, opts *Options) error {
	o, _ := opts.withDefaults()
	o.ReadOnly = false
	home, err := dbdir.Open(dir, o.dirOptions())
	if err != nil {
		return err
	}
	dir = home.Path
	if _, err := o.FS.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := foreign.Refuse(o.FS, dir, o.Limits.ManifestRead); err != nil {
		return err
	}
	if err := home.LockToDestroy(); err != nil {
		return err
	}
	names, err := home.FS.List(dir)
	if err != nil {
		return errors.Join(err, home.Abandon())
	}
	var failed error
	remove := func(name string) {
		if err := home.FS.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			failed = errors.Join(failed, err)
		}
	}
	for _, name := range names {
		// CURRENT is removed first and durably, so that a crash leaves no database that looks complete.
		if name == base.CurrentName {
			remove(name)
			failed = errors.Join(failed, home.FS.SyncDir(dir))
		}
	}
	for _, name := range names {
		if kind, _, ok := base.ParseFileName(name); ok && kind != base.FileLock && kind != base.FileCurrent {
			remove(name)
		}
	}
	if _, err := home.FS.Lstat(filepath.Join(dir, dbdir.ReserveName)); err == nil {
		remove(dbdir.ReserveName)
	}
	failed = errors.Join(failed, changes.Destroy(home.FS, dir), checkpoint.RemoveOwn(home.FS, dir))
	if failed != nil {
		return errors.Join(failed, home.Close())
	}
	failed = home.Remove()
	rest, err := o.FS.List(dir)
	if err == nil && len(rest) == 0 {
		_ = o.FS.Remove(dir) // an empty directory that remains does no harm
	}
	return failed
}
