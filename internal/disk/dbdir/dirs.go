package dbdir

import (
	"io/fs"
	"os"
	"path/filepath"

	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/vfs"
)

// makeDirs makes a directory and its missing parents, durably. made has those that were missing, the
// deepest first. After an error it removes what it made.
func makeDirs(fsys vfs.FS, dir string) (made []string, err error) {
	for d := filepath.Clean(dir); filepath.Dir(d) != d; d = filepath.Dir(d) {
		// A symbolic link that leads nowhere is not missing: it must not be removed.
		_, err := fsys.Lstat(d)
		if err == nil {
			break
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, errors.Wrapf(err, "sievedb: creating the directory %s", dir)
		}
		made = append(made, d)
	}
	if err := vfs.MkdirAllSynced(fsys, dir); err != nil {
		removeDirs(fsys, made)
		return nil, errors.Wrapf(err, "sievedb: creating the directory %s", dir)
	}
	return made, nil
}

// removeDirs removes directories that makeDirs made, if they are empty. One that remains does no harm.
func removeDirs(fsys vfs.FS, made []string) {
	for _, dir := range made {
		if names, err := fsys.List(dir); err != nil || len(names) > 0 || fsys.Remove(dir) != nil {
			return
		}
	}
}

// sameDir reports whether both paths lead to one directory.
func sameDir(fsys vfs.FS, a, b string) bool {
	a, b = filepath.Clean(a), filepath.Clean(b)
	if a == b {
		return true
	}
	first, err := fsys.Stat(a)
	if err != nil {
		return false
	}
	second, err := fsys.Stat(b)
	return err == nil && os.SameFile(first, second)
}
