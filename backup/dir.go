package backup

import (
	"context"
	"io"
	"io/fs"
	"iter"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/vfs"
)

// copyChunk is the size in bytes of the reads and writes of copies.
const copyChunk = 256 << 10

// dirStorage is a Storage in a directory. An object is a file with its name. It is written under a
// temporary name, synced, and linked to its name, so that it is never incomplete.
type dirStorage struct {
	fs   vfs.FS
	root string
}

// NewDir returns the Storage in directory dir of fsys; nil means the operating system's. The first backup makes the
// directory. It may be on a network file system that shows a file to all machines once it was created and closed.
func NewDir(fsys vfs.FS, dir string) (Storage, error) {
	if fsys == nil {
		fsys = vfs.OS
	}
	if dir == "" {
		return nil, errors.New("sievedb: backup: the repository's directory has no name; give a path")
	}
	abs, err := fsys.Abs(dir)
	if err != nil {
		return nil, errors.Wrapf(err, "sievedb: backup: directory %s", dir)
	}
	return &dirStorage{fsys, abs}, nil
}

func (d *dirStorage) path(name string) string { return filepath.Join(d.root, filepath.FromSlash(name)) }

// checkName refuses names that could leave the directory.
func checkName(name string) error {
	if !fs.ValidPath(name) || strings.ContainsAny(name, `\:`) {
		return errors.Newf("sievedb: backup: %q is not the name of an object", name)
	}
	return nil
}

// mkdirs makes the directories of an object.
func (d *dirStorage) mkdirs(name string) error {
	if err := d.checkDirs(name); err != nil {
		return err
	}
	return vfs.MkdirAllSynced(d.fs, d.path(path.Dir(name)))
}

// checkDirs returns an error if a directory of an object is a symbolic link: the object would be somewhere
// else. The repository itself may be one.
func (d *dirStorage) checkDirs(name string) error {
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if _, err := vfs.PlainDir(d.fs, d.path(dir)); err != nil {
			return err
		}
	}
	return nil
}

// Create implements Storage.
func (d *dirStorage) Create(ctx context.Context, name string, r io.Reader) error {
	if err := checkName(name); err != nil {
		return err
	}
	if _, err := d.fs.Lstat(d.path(name)); err == nil {
		return &fs.PathError{Op: "create", Path: d.path(name), Err: fs.ErrExist}
	}
	temp := d.path(tempName(name))
	err := d.mkdirs(tempPrefix)
	if err == nil {
		err = d.mkdirs(name)
	}
	if err != nil {
		return base.NoSpace(err)
	}
	if err = writeFile(ctx, d.fs, temp, r); err != nil {
		return base.NoSpace(err)
	}
	if err = d.install(ctx, temp, name); err == nil {
		err = d.fs.SyncDir(filepath.Dir(d.path(name)))
	}
	return base.NoSpace(err)
}

// install gives a complete file the name of an object, and removes the temporary one.
func (d *dirStorage) install(ctx context.Context, temp, object string) error {
	name := d.path(object)
	err := d.fs.Link(temp, name)
	if err != nil && !errors.Is(err, fs.ErrExist) { // the file system cannot link
		var renamed bool
		if renamed, err = d.rename(ctx, temp, object, err); renamed {
			return nil
		}
	}
	return errors.CombineErrors(err, d.fs.Remove(temp))
}

// rename gives a file a name that no file has, without a link, which failed with err. All names but those of segments
// contain random bits, or their content is the same for all writers, so that nothing is replaced. Writers of segments
// lock a file first.
func (d *dirStorage) rename(ctx context.Context, temp, object string, err error) (renamed bool, _ error) {
	if strings.HasPrefix(object, segmentPrefix) {
		lock, lockErr := d.lock(ctx)
		if lockErr != nil {
			return false, lockErr
		}
		defer lock.Close()
	}
	name := d.path(object)
	switch _, there := d.fs.Lstat(name); {
	case there == nil:
		return false, &fs.PathError{Op: "create", Path: name, Err: fs.ErrExist}
	case !errors.Is(there, fs.ErrNotExist):
		return false, err
	}
	err = d.fs.Rename(temp, name)
	return err == nil, err
}

// lockWait is how long a writer waits before it tries again to lock the file.
const lockWait = 10 * time.Millisecond

// lock locks a file of the repository, or waits until it can.
func (d *dirStorage) lock(ctx context.Context) (io.Closer, error) {
	for {
		lock, err := d.fs.Lock(d.path(tempPrefix+base.LockName), false)
		if !errors.Is(err, base.ErrLocked) {
			return lock, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(lockWait):
		}
	}
}

// tempName returns a name for an object that is being written. It ends with an ID, from which Prune sees how old it is.
func tempName(name string) string {
	return tempPrefix + strings.ReplaceAll(name, "/", "~") + "." + newID(time.Now())
}

// writeFile makes a new file with the content of r, and syncs it. After an error it is removed.
func writeFile(ctx context.Context, fsys vfs.FS, name string, r io.Reader) error {
	f, err := fsys.Create(name)
	if err != nil {
		return err
	}
	buf := make([]byte, copyChunk)
	_, err = io.CopyBuffer(struct{ io.Writer }{f}, struct{ io.Reader }{withContext{ctx, r}}, buf)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.CombineErrors(err, f.Close()); err != nil {
		return errors.CombineErrors(err, fsys.Remove(name))
	}
	return nil
}

// withContext is a reader that ends with the context.
type withContext struct {
	ctx context.Context
	r   io.Reader
}

func (c withContext) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}

// Open implements Storage.
func (d *dirStorage) Open(_ context.Context, name string) (io.ReadCloser, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	if err := d.checkDirs(name); err != nil {
		return nil, err
	}
	f, err := d.fs.Open(d.path(name))
	if err != nil {
		return nil, err
	}
	return readFile(f)
}

// fileReader reads a file from its beginning.
type fileReader struct {
	*io.SectionReader
	io.Closer
}

func readFile(f vfs.File) (fileReader, error) {
	size, err := f.Size()
	if err != nil {
		return fileReader{}, errors.CombineErrors(err, f.Close())
	}
	return fileReader{io.NewSectionReader(f, 0, size), f}, nil
}

// List implements Storage. It syncs the directories: an object may have been created or deleted by a process
// that was killed before it did so.
func (d *dirStorage) List(ctx context.Context, prefix string) iter.Seq2[Object, error] {
	return func(yield func(Object, error) bool) {
		dir := path.Dir(prefix + "x") // the directory of all names with the prefix
		if dir == "." {
			dir = ""
		}
		err := d.checkDirs(prefix + "x")
		if err == nil && dir != "" {
			err = d.syncRoot()
		}
		if err != nil {
			yield(Object{}, base.NoSpace(err))
			return
		}
		d.walk(ctx, dir, prefix, yield)
	}
}

// syncRoot makes the directories in the repository durable, if there is one.
func (d *dirStorage) syncRoot() error {
	if _, err := d.fs.Stat(d.root); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return d.fs.SyncDir(d.root)
}

// walk yields the files in and below dir whose names begin with prefix. It reports whether to continue.
func (d *dirStorage) walk(ctx context.Context, dir, prefix string, yield func(Object, error) bool) bool {
	names, err := d.fs.List(d.path(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return true
	}
	if err == nil {
		err = d.fs.SyncDir(d.path(dir))
	}
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		yield(Object{}, base.NoSpace(err))
		return false
	}
	for _, name := range names {
		name = path.Join(dir, name)
		if !strings.HasPrefix(name, prefix) && !strings.HasPrefix(prefix, name+"/") {
			continue
		}
		info, err := d.fs.Lstat(d.path(name))
		goOn := true
		switch {
		case errors.Is(err, fs.ErrNotExist): // it was deleted meanwhile
		case err != nil:
			yield(Object{}, err)
			return false
		case info.IsDir():
			goOn = d.walk(ctx, name, prefix, yield)
		case info.Mode().IsRegular():
			goOn = yield(Object{name, info.Size()}, nil)
		}
		if !goOn {
			return false
		}
	}
	return true
}

// Delete implements Storage.
func (d *dirStorage) Delete(_ context.Context, name string) error {
	if err := checkName(name); err != nil {
		return err
	}
	file := d.path(name)
	err := d.checkDirs(name)
	if err == nil {
		err = d.fs.Remove(file)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = d.fs.SyncDir(filepath.Dir(file))
	}
	return base.NoSpace(err)
}
