package vfs

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/sievedb/sievedb/internal/errors"
)

// OS is the operating system's file system. What it makes is its owner's alone.
var OS = NewOS(DefaultFileMode)

// DefaultFileMode is the mode of new files, before the umask: a database is its
// owner's.
const DefaultFileMode fs.FileMode = 0o600

// NewOS returns the operating system's file system with another mode for the
// files that it makes, of which the permission bits count; the umask takes its
// share as usual. Directories may be searched by whom files may be read. The mode
// of what exists is never changed. On Windows modes mean nothing here: what is
// new inherits its rights from the directory above.
func NewOS(mode fs.FileMode) FS { return osFS{mode.Perm()} }

type osFS struct {
	fileMode fs.FileMode
}

// dirMode is the mode of the directories that go with files of that mode.
func dirMode(fileMode fs.FileMode) fs.FileMode { return fileMode | fileMode&0o444>>2 }

func (osFS) Abs(name string) (string, error) { return filepath.Abs(name) }

func (o osFS) Create(name string) (File, error) {
	// O_EXCL follows no link and takes no planted file.
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, o.fileMode)
	if errors.Is(err, fs.ErrExist) {
		if info, lerr := os.Lstat(name); lerr == nil {
			if why := notPlain(info.Mode()); why != nil {
				return nil, pathError("create", name, why)
			}
		}
	}
	if err != nil {
		return nil, renamed("create", err)
	}
	return &osFile{f: f}, nil
}

func (osFS) Open(name string) (File, error) {
	f, err := openPlain("open", name, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	return &osFile{f: f, reading: true}, nil
}

// openPlain opens a plain file and nothing else: a link is not followed, and a
// named pipe in a directory of somebody's making must not hang us. mode is that
// of a file that flags say to make.
func openPlain(op, name string, flags int, mode fs.FileMode) (*os.File, error) {
	f, err := openNoFollow(name, flags, mode)
	if err != nil {
		// What the system says of a link differs ("too many levels", "too many
		// links", "inappropriate file type"); ours is plain.
		if info, lerr := os.Lstat(name); lerr == nil {
			if why := notPlain(info.Mode()); why != nil {
				return nil, pathError(op, name, why)
			}
		}
		return nil, renamed(op, err)
	}
	info, err := f.Stat()
	if err == nil {
		err = notPlain(info.Mode())
	}
	if err != nil {
		return nil, pathError(op, name, errors.Join(err, f.Close()))
	}
	return f, nil
}

// renamed gives an error of package os the name of our operation, in place of
// the system call's.
func renamed(op string, err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return pathError(op, p.Path, p.Err)
	}
	return err
}

func (osFS) Remove(name string) error { return os.Remove(name) }

func (osFS) Rename(oldname, newname string) error { return os.Rename(oldname, newname) }

func (osFS) Link(oldname, newname string) error { return os.Link(oldname, newname) }

func (osFS) List(dir string) ([]string, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, renamed("list", err)
	}
	names, err := d.Readdirnames(-1)
	if cerr := d.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return nil, renamed("list", err)
	}
	slices.Sort(names)
	return names, nil
}

func (osFS) Stat(name string) (fs.FileInfo, error) { return os.Stat(name) }

func (osFS) Lstat(name string) (fs.FileInfo, error) { return os.Lstat(name) }

func (o osFS) MkdirAll(dir string) error { return os.MkdirAll(dir, dirMode(o.fileMode)) }

func (osFS) SyncDir(dir string) error { return renamed("sync directory", syncDir(dir)) }

func (o osFS) Lock(name string, shared bool) (io.Closer, error) {
	return lockFile(name, shared, o.fileMode)
}

// osFile adds to *os.File what File promises alike everywhere. EINTR and
// partial writes are package os's to handle, and it does.
type osFile struct {
	f       *os.File
	reading bool // from Open
	passing bool // what is written is not to stay in memory; see FollowCache
}

func (o *osFile) ReadAt(p []byte, off int64) (int, error) { return o.f.ReadAt(p, off) }

func (o *osFile) Write(p []byte) (int, error) {
	if o.reading {
		return 0, pathError("write", o.f.Name(), errReadingOnly)
	}
	if o.passing {
		return o.writePassing(p)
	}
	return o.f.Write(p)
}

// Sync is fsync, on Windows FlushFileBuffers. On macOS package os asks for
// F_FULLFSYNC, which empties the drive's cache too; fsync there does not.
func (o *osFile) Sync() error {
	if o.reading {
		return pathError("sync", o.f.Name(), errReadingOnly)
	}
	return o.f.Sync()
}

func (o *osFile) Close() error { return o.f.Close() }

func (o *osFile) Size() (int64, error) {
	info, err := o.f.Stat()
	if err != nil {
		return 0, renamed("size", err)
	}
	return info.Size(), nil
}
