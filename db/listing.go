package db

import (
	"io/fs"
	"path/filepath"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/vfs"
)

// dirFile is a file of the directory whose name is one of the format's.
type dirFile struct {
	kind base.FileKind
	num  uint64
	size int64
}

// dirFiles is what a database directory holds.
type dirFiles struct {
	hasCurrent bool
	all        []dirFile // in the order of names
}

func listDir(fsys vfs.FS, dir string) (dirFiles, error) {
	var files dirFiles
	names, err := fsys.List(dir)
	if err != nil {
		return files, err
	}
	for _, name := range names {
		kind, num, ok := base.ParseFileName(name)
		if !ok {
			continue
		}
		info, err := statOwn(fsys, filepath.Join(dir, name), kind)
		if err != nil {
			return files, err
		}
		if kind == base.FileCurrent {
			files.hasCurrent = true
		} else if info.Mode().IsRegular() && kind != base.FileLock && kind != base.FileInfoLog {
			files.all = append(files.all, dirFile{kind, num, info.Size()})
		}
	}
	return files, nil
}

// statOwn describes a file of the directory. A symbolic link under a name that we
// would open, replace or remove is refused: it may lead anywhere.
func statOwn(fsys vfs.FS, path string, kind base.FileKind) (fs.FileInfo, error) {
	info, err := fsys.Lstat(path)
	if err == nil && kind != base.FileInfoLog { // that one is another engine's alone
		err = vfs.RefuseLink(path, info)
	}
	return info, err
}
