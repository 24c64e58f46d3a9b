package changes

import (
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/vfs"
)

// Destroy removes the archive of the database in dir: the files whose names belong to it, and the subdirectory
// if it is empty then. A missing one is no error.
func Destroy(fsys vfs.FS, dir string) error {
	dir = filepath.Join(dir, base.ChangesDir)
	there, err := vfs.PlainDir(fsys, dir)
	if !there || err != nil {
		return err
	}
	names, err := fsys.List(dir)
	if err != nil {
		return err
	}
	slices.Reverse(names)
	for _, name := range names {
		if !ours(name) {
			continue
		}
		if removeErr := fsys.Remove(filepath.Join(dir, name)); !errors.Is(removeErr, fs.ErrNotExist) {
			err = errors.Join(err, removeErr)
		}
	}
	if err != nil {
		return err
	}
	rest, err := fsys.List(dir)
	if err == nil && len(rest) == 0 {
		err = fsys.Remove(dir)
	}
	return err
}

// isTemp reports whether a crash left a file of this name.
func isTemp(name string) bool {
	return strings.HasSuffix(name, tempSuffix) || strings.HasSuffix(name, copySuffix)
}

// ours reports whether a name belongs to the archive.
func ours(name string) bool {
	if _, ok := parseName(name); ok || name == cursorsName || isTemp(name) {
		return true
	}
	kind, _, ok := base.ParseFileName(name)
	return ok && kind == base.FileTable
}
