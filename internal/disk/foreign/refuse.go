package foreign

import (
	"io/fs"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/vfs"
)

// Refuse returns an error if the path is not a directory, or if it contains a database of another
// engine, which the store must not change.
func Refuse(fsys vfs.FS, dir string, manifestReadLimit int64) error {
	info, err := fsys.Stat(dir)
	if err != nil {
		return NoDir(err)
	}
	if !info.IsDir() {
		return RefuseFile(fsys, dir, info)
	}
	return RefuseDir(fsys, dir, manifestReadLimit, false)
}

// RefuseDir is Refuse for a directory. With quick, it checks only names if those are LevelDB's.
func RefuseDir(fsys vfs.FS, dir string, manifestReadLimit int64, quick bool) error {
	names, err := fsys.List(dir)
	if err != nil {
		return err
	}
	found, err := Directory(fsys, dir, names, Options{Quick: quick, ManifestReadLimit: manifestReadLimit})
	if found == nil || err != nil {
		return err
	}
	return errors.Wrapf(base.ErrForeign, "sievedb: %s holds a database of %s: %s; nothing was changed; "+
		"read its entries with that engine and write them to a new database, or move these files elsewhere if they are not in use",
		dir, found.Engine, found.Evidence)
}

// NoDir returns the error for a path for which Stat returned err.
func NoDir(err error) error { return errors.Wrap(err, "sievedb: looking for a database") }

// RefuseFile returns the error for a path that is a file instead of a directory.
func RefuseFile(fsys vfs.FS, path string, info fs.FileInfo) error {
	if info.Mode().IsRegular() {
		found, err := File(fsys, path)
		if err != nil {
			return err
		}
		if found != nil {
			return errors.Wrapf(base.ErrForeign, "sievedb: %s is a database of %s: %s; open it with that engine",
				path, found.Engine, found.Evidence)
		}
	}
	return errors.Newf("sievedb: %s is a file; a database is a directory", path)
}
