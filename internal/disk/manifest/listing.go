package manifest

import (
	"io"
	"io/fs"
	"path/filepath"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/wal"
	"github.com/sievedb/sievedb/vfs"
)

// DirFile is a file of the directory with a name of the format.
type DirFile struct {
	Kind base.FileKind
	Num  uint64
	Size int64
}

// DirFiles has the files of a database directory.
type DirFiles struct {
	HasCurrent bool
	All        []DirFile // sorted by name
}

func ListDir(fsys vfs.FS, dir string) (DirFiles, error) {
	var files DirFiles
	names, err := fsys.List(dir)
	if err != nil {
		return files, err
	}
	for _, name := range names {
		kind, num, ok := base.ParseFileName(name)
		if !ok {
			continue
		}
		info, err := StatOwn(fsys, filepath.Join(dir, name), kind)
		if err != nil {
			return files, err
		}
		if kind == base.FileCurrent {
			files.HasCurrent = true
		} else if info.Mode().IsRegular() && kind != base.FileLock && kind != base.FileInfoLog {
			files.All = append(files.All, DirFile{kind, num, info.Size()})
		}
	}
	return files, nil
}

// IsBlankLog reports whether a log in dir has nothing but zeros from an offset on: space that was reserved and not
// used.
func IsBlankLog(fsys vfs.FS, dir string, log DirFile, from int64) (bool, error) {
	left := log.Size - from
	if left <= 0 {
		return true, nil
	}
	path := filepath.Join(dir, base.FileName(log.Kind, log.Num))
	f, err := fsys.Open(path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	blank, err := wal.IsBlank(io.NewSectionReader(f, from, left), left)
	return blank, base.InFile(err, path, -1)
}

// StatOwn describes a file of the directory. It refuses a symbolic link with the name of a file
// that we would open, replace or remove, because the link may lead anywhere.
func StatOwn(fsys vfs.FS, path string, kind base.FileKind) (fs.FileInfo, error) {
	info, err := fsys.Lstat(path)
	if err == nil && kind != base.FileInfoLog { // only other engines write the info log
		err = vfs.RefuseLink(path, info)
	}
	return info, err
}
