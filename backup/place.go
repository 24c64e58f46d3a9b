package backup

import (
	"github.com/sievedb/sievedb/internal/base/errors"
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
	in, err := vfs.Within(fsys, path, d.fs, d.root)
	if in {
		return errors.Newf(advice, path, "the repository "+d.root)
	}
	if err == nil {
		in, err = vfs.Within(d.fs, d.root, fsys, path)
	}
	if in {
		return errors.Newf(advice, "the repository "+d.root, path)
	}
	return err
}
