package backup

import (
	"context"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/errors"
	"github.com/sievedb/sievedb/vfs"
)

// RestoreOptions configure Restore.
type RestoreOptions struct {
	// FS is the file system of the directory. nil means the operating system's.
	FS vfs.FS
	// Database is the name of the database whose newest backup is restored if no ID is given.
	Database string
}

// restoreSuffix ends the name of a directory that is being restored.
const restoreSuffix = ".restore"

// Restore makes the directory dest with the content of a backup, the newest one if id is empty. dest must
// not exist or be empty. It then opens as a database of its own; the backup does not change. Restore
// returns the backup that it restored.
//
// The directory is made with the name of dest and ".restore", synced, and renamed, so that dest is
// complete or does not exist. After an error or a crash a directory with that suffix may
// remain, which the next call for dest replaces. Size and checksum of every file are compared; a
// difference matches db.ErrCorruption. A full disk is db.ErrNoSpace. If ctx is done, the error is that of
// ctx. nil options mean the defaults.
func (r *Repository) Restore(ctx context.Context, id, dest string, o *RestoreOptions) (Info, error) {
	if ctx == nil || dest == "" {
		return Info{}, errors.New("sievedb: backup: Restore needs a context and a directory")
	}
	if o == nil {
		o = &RestoreOptions{}
	}
	fsys := o.FS
	if fsys == nil {
		fsys = vfs.OS
	}
	dest, err := fsys.Abs(filepath.Clean(dest))
	if err == nil {
		err = r.check(ctx)
	}
	if err != nil {
		return Info{}, err
	}
	m, err := r.find(ctx, id, o.Database)
	if err != nil {
		return Info{}, err
	}
	s := restoring{Repository: r, ctx: ctx, fs: fsys, m: m, dest: dest, temp: dest + restoreSuffix}
	if err := s.run(); err != nil {
		return Info{}, errors.Wrapf(base.NoSpace(err), "sievedb: backup: restoring %s to %s", m.ID, dest)
	}
	return m.Info, nil
}

// find returns the manifest of a backup, of the newest of the database if id is empty.
func (r *Repository) find(ctx context.Context, id, database string) (*manifest, error) {
	if id != "" {
		if !validID(id) {
			return nil, errors.Newf("sievedb: backup: %q is not the ID of a backup; List returns them", id)
		}
		return r.manifest(ctx, id)
	}
	ids, err := r.ids(ctx, backupPrefix)
	for i := len(ids) - 1; i >= 0 && err == nil; i-- {
		var m *manifest
		if m, err = r.manifest(ctx, ids[i]); err == nil && m.Database == database {
			return m, nil
		}
	}
	if err == nil {
		err = errors.Wrapf(fs.ErrNotExist, "sievedb: backup: the repository has no backup of a database named %q", database)
	}
	return nil, err
}

// restoring is one call of Restore.
type restoring struct {
	*Repository
	ctx        context.Context
	fs         vfs.FS
	m          *manifest
	dest, temp string
}

func (s *restoring) run() error {
	if err := s.checkDest(); err != nil {
		return err
	}
	if err := vfs.MkdirAllSynced(s.fs, s.temp); err != nil {
		return err
	}
	lockName := filepath.Join(s.temp, base.LockName)
	lock, err := s.fs.Lock(lockName, false)
	if err != nil {
		return err
	}
	if err = s.clear(); err == nil {
		err = s.fill()
	}
	if err == nil {
		err = s.removeEmptyDest()
	}
	if err == nil {
		err = s.fs.Rename(s.temp, s.dest)
	}
	if err != nil {
		// CURRENT goes first, so that what cannot be removed does not open.
		err = errors.CombineErrors(err, s.clear())
		err = errors.CombineErrors(err, vfs.RemoveLock(s.fs, lockName, lock))
		return errors.CombineErrors(err, s.fs.Remove(s.temp))
	}
	return errors.CombineErrors(s.fs.SyncDir(filepath.Dir(s.dest)), lock.Close())
}

// checkDest refuses a destination that has files.
func (s *restoring) checkDest() error {
	there, err := vfs.PlainDir(s.fs, s.dest)
	if err != nil || !there {
		return err
	}
	names, err := s.fs.List(s.dest)
	if err == nil && len(names) > 0 {
		err = errors.Wrapf(fs.ErrExist, "it has %s; choose a directory that does not exist or is empty", names[0])
	}
	return err
}

func (s *restoring) removeEmptyDest() error {
	if err := s.fs.Remove(s.dest); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// clear removes what an interrupted call left.
func (s *restoring) clear() error {
	names, err := s.fs.List(s.temp)
	for _, name := range names {
		if !isBackedUp(name) && name != base.LockName {
			return errors.Newf("%s has a file %s that no backup has; remove the directory", s.temp, name)
		}
	}
	if err == nil {
		err = s.removeFile(base.CurrentName)
	}
	for _, name := range names {
		if err == nil && name != base.LockName {
			err = s.removeFile(name)
		}
	}
	return err
}

func (s *restoring) removeFile(name string) error {
	if err := s.fs.Remove(filepath.Join(s.temp, name)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// fill copies all files. CURRENT, without which no engine finds the database, is last, when all others
// are durable.
func (s *restoring) fill() error {
	var current *file
	for i := range s.m.files {
		f := &s.m.files[i]
		if f.name == base.CurrentName {
			current = f
			continue
		}
		if err := s.copy(f); err != nil {
			return err
		}
	}
	if current == nil {
		return base.Corruptf("backup manifest", -1, "it has no file CURRENT")
	}
	err := s.fs.SyncDir(s.temp)
	if err == nil {
		err = s.copy(current)
	}
	if err == nil {
		err = s.fs.SyncDir(s.temp)
	}
	return err
}

func (s *restoring) copy(f *file) error {
	if err := s.ctx.Err(); err != nil {
		return err
	}
	src, err := s.storage.Open(s.ctx, f.object())
	if err != nil {
		return errors.Wrapf(err, "file %s", f.name)
	}
	defer src.Close()
	err = writeFile(s.ctx, s.fs, filepath.Join(s.temp, f.name), newCheckedReader(atMost(src, f.size), f))
	return base.InFile(err, f.object(), -1)
}

// atMost returns a reader of at most one byte more than size, so that an object that is too long does
// not fill the disk.
func atMost(r io.Reader, size int64) io.Reader { return io.LimitReader(r, size+1) }
