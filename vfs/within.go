package vfs

import (
	"io/fs"
	"path/filepath"

	"github.com/sievedb/sievedb/internal/base/errors"
)

// Within reports whether path is the directory dir, or in it, also if a symbolic link leads there. Both file systems
// may be the same. path need not exist; a missing dir contains nothing.
func Within(fsys FS, path string, dirFS FS, dir string) (bool, error) {
	want, err := dirFS.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	info, err := fsys.Stat(path)
	for errors.Is(err, fs.ErrNotExist) && filepath.Dir(path) != path {
		path = filepath.Dir(path)
		info, err = fsys.Stat(path)
	}
	for err == nil && !SameFile(info, want) {
		// Not filepath.Dir: the parent of what a link leads to is another directory than that of the link.
		path += string(filepath.Separator) + ".."
		below := info
		if info, err = fsys.Stat(path); err == nil && SameFile(below, info) { // the root
			return false, nil
		}
	}
	if errors.Is(err, fs.ErrNotExist) { // not even the root
		return false, nil
	}
	return err == nil, err
}
