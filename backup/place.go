package backup

import (
	"io/fs"
	"path/filepath"

	"github.com/sievedb/sievedb/internal/errors"
	"github.com/sievedb/sievedb/vfs"
)

// apart returns an error if the storage is a directory that is path of fsys, or in it, or contains it. path
// need not exist. Symbolic links make no difference.
func apart(s Storage, fsys vfs.FS, path string) error {
	d, ok := s.(*dirStorage)
	if !ok {
		return nil
	}
	const advice = "%s is in %s; choose directories apart: what removes one would remove the other"
	in, err := within(fsys, path, d.fs, d.root)
	if in {
		return errors.Newf(advice, path, "the repository "+d.root)
	}
	if err == nil {
		in, err = within(d.fs, d.root, fsys, path)
	}
	if in {
		return errors.Newf(advice, "the repository "+d.root, path)
	}
	return err
}

// within reports whether path of one file system is the directory dir of another one, or in it.
func within(fsys vfs.FS, path string, dirFS vfs.FS, dir string) (bool, error) {
	want, err := dirFS.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	for ; err == nil; path = filepath.Dir(path) {
		var info fs.FileInfo
		info, err = fsys.Stat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			err = nil
		case err == nil && vfs.SameFile(info, want):
			return true, nil
		}
		if filepath.Dir(path) == path {
			break
		}
	}
	return false, err
}
