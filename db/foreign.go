package db

import (
	"io/fs"

	"github.com/sievedb/sievedb/internal/errors"
	"github.com/sievedb/sievedb/internal/foreign"
	"github.com/sievedb/sievedb/vfs"
)

// refuseForeign is the error of a path that is no directory, or that holds a database of
// another engine, which none of our calls may change.
func refuseForeign(fsys vfs.FS, dir string, o *Options) error {
	info, err := fsys.Stat(dir)
	if err != nil {
		return errNoDir(err)
	}
	if !info.IsDir() {
		return refuseFile(fsys, dir, info)
	}
	return refuseForeignDir(fsys, dir, o, false)
}

// refuseForeignDir is refuseForeign of a directory. quick looks at names alone where those
// are LevelDB's.
func refuseForeignDir(fsys vfs.FS, dir string, o *Options, quick bool) error {
	names, err := fsys.List(dir)
	if err != nil {
		return err
	}
	found, err := foreign.Directory(fsys, dir, names, foreign.Options{Quick: quick, ManifestReadLimit: o.ManifestReadLimit})
	if found == nil || err != nil {
		return err
	}
	return errors.Wrapf(ErrForeign, "sievedb: %s holds a database of %s: %s; nothing was changed: open it with that engine, "+
		"or move these files elsewhere if they are not in use", dir, found.Engine, found.Evidence)
}

// errNoDir is the error of a path of which Stat says err.
func errNoDir(err error) error { return errors.Wrap(err, "sievedb: looking for a database") }

func refuseFile(fsys vfs.FS, path string, info fs.FileInfo) error {
	if info.Mode().IsRegular() {
		found, err := foreign.File(fsys, path)
		if err != nil {
			return err
		}
		if found != nil {
			return errors.Wrapf(ErrForeign, "sievedb: %s is a database of %s: %s; open it with that engine", path, found.Engine, found.Evidence)
		}
	}
	return errors.Newf("sievedb: %s is a file; a database is a directory", path)
}
