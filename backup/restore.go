package backup

import (
	"context"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/vfs"
)

// RestoreOptions configure Restore.
type RestoreOptions struct {
	// FS is the file system of the directory. nil means the operating system's.
	FS vfs.FS
	// Database is the name of the database whose newest backup is restored if no ID is given. "" means the only
	// database of the repository; if there are several, the error lists their names. A database without a name that
	// shares a repository with others is restored by the ID of a backup.
	Database string
	// Comparer is that of the database. RestoreAt needs it, unless the database has the default one.
	Comparer *db.Comparer
}

// restoreSuffix ends the name of a directory that is being restored.
const restoreSuffix = ".restore"

// Restore makes the directory dest with the content of a backup; if id is empty, with the newest one of the
// database that RestoreOptions.Database names, or of the only database. dest must not exist or be empty, and not
// be in the repository. It then opens as a database of its own; the backup does not change. Restore returns the
// backup that it restored. If the newest backup is dated more than a day after now, an ID must be given.
//
// The directory is made with the name of dest and ".restore", synced, and renamed, so that dest is complete, empty as
// it was, or does not exist. After an error or a crash a directory with that suffix may remain, which the next call for
// dest replaces. Any other directory of that name is an error. So are, on Unix, a directory of that name and an empty
// dest that another user owns or can write in, as vfs.OwnDir says: the error matches vfs.ErrNotOwn. Size and checksum
// of every file are compared; a difference matches db.ErrCorruption. A full disk is db.ErrNoSpace. If ctx is done, the
// error is that of ctx. nil options mean the defaults.
func (r *Repository) Restore(ctx context.Context, id, dest string, o *RestoreOptions) (Info, error) {
	s, err := r.newRestoring(ctx, dest, o)
	if err != nil {
		return Info{}, err
	}
	if s.m, err = r.find(ctx, id, s.o.Database); err != nil {
		return Info{}, err
	}
	if err := s.run(); err != nil {
		return Info{}, s.failed(err)
	}
	return s.m.Info, nil
}

func (r *Repository) newRestoring(ctx context.Context, dest string, o *RestoreOptions) (*restoring, error) {
	if ctx == nil || dest == "" {
		return nil, errors.New("sievedb: backup: Restore needs a context and a directory")
	}
	s := &restoring{Repository: r, ctx: ctx}
	if o != nil {
		s.o = *o
	}
	if s.fs = s.o.FS; s.fs == nil {
		s.fs = vfs.OS
	}
	var err error
	if s.dest, err = s.fs.Abs(filepath.Clean(dest)); err == nil {
		err = r.check(ctx)
	}
	s.temp = s.dest + restoreSuffix
	return s, err
}

func (s *restoring) failed(err error) error {
	return errors.Wrapf(base.NoSpace(err), "sievedb: backup: restoring %s to %s", s.m.ID, s.dest)
}

// find returns the manifest of a backup, of the newest of the database if id is empty.
func (r *Repository) find(ctx context.Context, id, database string) (found *manifest, err error) {
	if id != "" {
		if !validID(id) {
			return nil, errors.Newf("sievedb: backup: %q is not the ID of a backup; List returns them", id)
		}
		return r.manifest(ctx, id)
	}
	ids, err := r.ids(ctx, backupPrefix)
	if err != nil {
		return nil, err
	}
	var names []string
	for i := len(ids) - 1; i >= 0 && (found == nil || database == ""); i-- {
		m, err := r.manifest(ctx, ids[i])
		switch {
		case err == nil:
			names = append(names, m.Database)
			if found == nil && (database == "" || m.Database == database) {
				found = m
			}
		case errors.Is(err, fs.ErrNotExist): // Prune has just removed it
		case found == nil || !base.IsUnreadable(err): // else it is not needed
			return nil, err
		}
	}
	if _, err = onlyDatabase(database, names); err != nil {
		return nil, err
	}
	switch {
	case found == nil && len(names) == 0:
		return nil, errors.NotExist("sievedb: backup: the repository has no backup")
	case found == nil:
		return nil, errors.NotExist("sievedb: backup: the repository has no backup of a database named %q; "+
			"it has backups of %s", database, quoted(names))
	case r.isFuture(found.Time):
		return nil, errors.Newf("sievedb: backup: %s, the newest backup, is dated after now; "+
			"compare the clocks, and give the ID of the backup to restore", found.ID)
	}
	return found, nil
}

// onlyDatabase returns the name of a database, that of all backups if it is empty. names are those of the backups.
func onlyDatabase(name string, names []string) (string, error) {
	if name != "" || len(names) == 0 {
		return name, nil
	}
	if slices.Min(names) != slices.Max(names) {
		return "", errors.Newf("sievedb: backup: the repository has backups of several databases, %s; "+
			"name one of them, or give the ID of a backup", quoted(names))
	}
	return names[0], nil
}

// quoted lists each name once.
func quoted(names []string) string {
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	for i, name := range names {
		names[i] = strconv.Quote(name)
	}
	return strings.Join(names, ", ")
}

// restoring is one call of Restore.
type restoring struct {
	*Repository
	ctx        context.Context
	o          RestoreOptions
	fs         vfs.FS
	m          *manifest
	dest, temp string
	replay     *replay // nil: the backup as it is
	empty      bool    // dest was there
}

func (s *restoring) run() error {
	if err := apart(s.storage, s.fs, s.dest); err != nil {
		return err
	}
	if err := s.checkDest(); err != nil {
		return err
	}
	lock, err := s.makeTemp()
	if err != nil {
		return err
	}
	if err = s.begin(); err == nil {
		err = s.fill()
	}
	if err == nil {
		err = s.fs.Rename(s.temp, s.dest)
	}
	if err != nil {
		// CURRENT goes first, so that what cannot be removed does not open.
		err = errors.CombineErrors(err, s.clear())
		err = errors.CombineErrors(err, s.removeFile(markerName))
		return errors.CombineErrors(err, s.giveBack(lock))
	}
	err = s.fs.SyncDir(filepath.Dir(s.dest))
	if err == nil {
		_ = s.fs.Remove(filepath.Join(s.dest, markerName)) // if it stays, the next Open removes it
	}
	return errors.CombineErrors(err, lock.Close())
}

// checkDest refuses a destination that has files, other than the one that is locked, or that another user can change.
func (s *restoring) checkDest() (err error) {
	if s.empty, err = vfs.PlainDir(s.fs, s.dest); err != nil || !s.empty {
		return err
	}
	names, err := s.fs.List(s.dest)
	names = slices.DeleteFunc(names, func(name string) bool { return name == base.LockName })
	if err == nil && len(names) > 0 {
		err = errors.Wrapf(fs.ErrExist, "it has %s; choose a directory that does not exist or is empty", names[0])
	}
	if err == nil {
		_, err = vfs.OwnDir(s.fs, s.dest)
	}
	return chooseAnother(err)
}

// clear removes what an interrupted call left.
func (s *restoring) clear() error {
	names, err := s.fs.List(s.temp)
	for _, name := range names {
		if !isBackedUp(name) && name != base.LockName && name != markerName && !isOfReplay(name) {
			return errors.Newf("%s has a file %s that no backup has; remove the directory", s.temp, name)
		}
	}
	if err == nil {
		err = s.removeFile(base.CurrentName)
	}
	for _, name := range names {
		if err == nil && name == replayTables {
			err = s.removeTables()
		} else if err == nil && name != base.LockName && name != markerName {
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

// fill copies all files. CURRENT, without which no engine finds the database, is last, when all others are durable.
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
	err := s.fs.SyncDir(s.temp)
	if err == nil && s.replay != nil {
		return s.applyChanges(*current)
	}
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
