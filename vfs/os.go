package vfs

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/sievedb/sievedb/internal/base/errors"
)

// OS is the operating system's file system. Only the owner can access the files that it makes.
var OS = NewOS(DefaultFileMode)

// DefaultFileMode is the mode of new files, before the umask: only the owner can read or write a database.
const DefaultFileMode fs.FileMode = 0o600

// NewOS returns the operating system's file system with another mode for new files. Only the permission bits of mode
// count, and the umask applies. Users who may read files may also search directories. Modes of existing files never
// change. On Windows the mode has no effect: new files inherit their permissions from the parent directory.
func NewOS(mode fs.FileMode) FS { return osFS{mode.Perm()} }

type osFS struct {
	fileMode fs.FileMode
}

// dirMode returns the mode of directories for files of the given mode.
func dirMode(fileMode fs.FileMode) fs.FileMode { return fileMode | fileMode&0o444>>2 }

func (osFS) Abs(name string) (string, error) { return filepath.Abs(name) }

func (o osFS) Create(name string) (File, error) {
	// O_EXCL follows no link and refuses an existing file.
	f, err := openFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, o.fileMode)
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

// openPlain opens plain files only: it does not follow a link, and does not block on a named
// pipe that another user may have put there. mode is the mode of a file that it creates.
func openPlain(op, name string, flags int, mode fs.FileMode) (*os.File, error) {
	f, err := openNoFollow(name, flags, mode)
	if err != nil {
		// Systems report links in different words ("too many levels", "too many links",
		// "inappropriate file type"); replace them with ours.
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

// renamed replaces the system call in an error of package os with the name of our operation.
func renamed(op string, err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return pathError(op, p.Path, p.Err)
	}
	return err
}

func (osFS) Remove(name string) error { return os.Remove(name) }

func (osFS) Rename(oldname, newname string) error { return rename(oldname, newname) }

func (osFS) Link(oldname, newname string) error { return os.Link(oldname, newname) }

func (osFS) List(dir string) ([]string, error) {
	d, err := openDir(dir)
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

func (o osFS) MkdirAll(dir string) error { return os.MkdirAll(dir, o.newDirMode()) }

// Mkdir implements DirMaker.
func (o osFS) Mkdir(dir string) error { return os.Mkdir(dir, o.newDirMode()) }

func (o osFS) newDirMode() fs.FileMode { return dirMode(o.fileMode) }

func (osFS) SyncDir(dir string) error { return renamed("sync directory", syncDir(dir)) }

func (o osFS) Lock(name string, shared bool) (io.Closer, error) {
	return lockFile(name, shared, o.fileMode)
}

// osFile adds to *os.File what File promises on every system. Package os handles EINTR and partial writes.
type osFile struct {
	f        *os.File
	reading  bool // from Open
	uncached bool // writes bypass the page cache; see FollowCache
}

func (o *osFile) ReadAt(p []byte, off int64) (int, error) { return o.f.ReadAt(p, off) }

func (o *osFile) Write(p []byte) (int, error) {
	if o.reading {
		return 0, pathError("write", o.f.Name(), errReadingOnly)
	}
	if o.uncached {
		return o.writeUncached(p)
	}
	return o.f.Write(p)
}

// Sync is fsync, or FlushFileBuffers on Windows. On macOS package os uses F_FULLFSYNC, which
// also flushes the drive's cache; fsync does not flush it there.
func (o *osFile) Sync() error {
	if o.reading {
		return pathError("sync", o.f.Name(), errReadingOnly)
	}
	return o.f.Sync()
}

func (o *osFile) Close() error { return o.f.Close() }

func (o *osFile) Size() (int64, error) { return fileSize(o.f) }
