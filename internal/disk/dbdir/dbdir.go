package dbdir

import (
	"io/fs"
	"path/filepath"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/foreign"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/vfs"
)

// Options are those of db.Options, with defaults filled in.
type Options struct {
	FS                                      vfs.FS
	ErrorIfMissing, ErrorIfExists, ReadOnly bool
	ManifestRead                            int64
	LogDir                                  string
}

// Dir is the directory of a database. It is for one goroutine.
type Dir struct {
	Path string // absolute
	// FS shows logs that are in another directory as files of this one. It is the final one when Lock returns.
	FS   vfs.FS
	Logs *LogDir
	// Reserve is nil if there is none.
	Reserve *Reserve

	o      Options
	logDir string   // absolute, or empty
	made   []string // directories that Prepare made, the deepest first
	lock   *manifest.DirLock
	// changed says that Abandon must not remove LOCK.
	changed bool
	// FindOrAbandonLogs left out the logs because they are lost, or because there is no LOGDIR.
	lost, unmarked bool
}

// Open returns the directory of a path, and looks for its logs if it exists.
func Open(path string, o Options) (*Dir, error) {
	d := &Dir{FS: o.FS, o: o}
	var err error
	if d.Path, err = manifest.AbsoluteDir(o.FS, path); err != nil {
		return nil, err
	}
	if o.LogDir == "" {
		return d, nil
	}
	d.logDir, err = manifest.AbsoluteDir(o.FS, o.LogDir)
	return d, err
}

// Prepare makes sure that the directory exists, and that it contains a database if none may be
// created. It reports whether it created the directory. It is called before Lock.
func (d *Dir) Prepare() (created bool, err error) {
	info, err := d.FS.Stat(d.Path)
	switch {
	case err == nil && !info.IsDir():
		return false, foreign.RefuseFile(d.FS, d.Path, info)
	case err == nil:
		// Before the lock: not even LOCK is created in another engine's directory.
		if err := foreign.RefuseDir(d.FS, d.Path, d.o.ManifestRead, true); err != nil {
			return false, err
		}
		if err := refuseLogs(d.FS, d.Path); err != nil {
			return false, err
		}
		if err := d.FindLogs(); err != nil {
			return false, err
		}
		return false, d.needDatabase()
	case !errors.Is(err, fs.ErrNotExist):
		return false, foreign.NoDir(err)
	case d.o.ErrorIfMissing || d.o.ReadOnly:
		return false, d.errMissing(err)
	}
	if err := d.FindLogs(); err != nil {
		return false, err
	}
	d.made, err = makeDirs(d.FS, d.Path)
	return true, err
}

// FindLogs finds the logs of the database, before Lock. It refuses directories that do not belong together.
func (d *Dir) FindLogs() (err error) {
	if d.Logs, err = findLogs(d.o.FS, d.Path, d.logDir); err == nil {
		d.FS = d.Logs.FS
	}
	return err
}

// FindOrAbandonLogs is FindLogs for a repair. If the logs are to be in the directory itself, but are lost
// or it is unknown where they are, they are left out. A directory that cannot be read is not lost.
func (d *Dir) FindOrAbandonLogs() error {
	err := d.FindLogs()
	if d.logDir == "" || !sameDir(d.o.FS, d.logDir, d.Path) || err != nil && !isLost(err) {
		return err
	}
	d.lost = err != nil
	if d.unmarked = !d.lost && !d.Logs.Marked(); d.lost || d.unmarked {
		d.Logs, d.FS = logsHere(d.o.FS, d.Path), d.o.FS
	}
	return nil
}

// Repaired is called after a successful repair. elsewhere says that a MANIFEST had recorded that the logs
// are elsewhere. If they were left out, Repaired records that, and returns their directory, or "unknown".
// Before, the database is not opened without them.
func (d *Dir) Repaired(elsewhere bool) (abandoned string, err error) {
	if !d.lost && (!d.unmarked || !elsewhere) {
		return "", nil
	}
	abandoned, err = recordedLogs(d.o.FS, d.Path)
	if err != nil || abandoned == "" {
		abandoned = "unknown"
	}
	return abandoned, abandonLogs(d.o.FS, d.Path)
}

// Lock locks the directory, and that of the logs if there is one.
func (d *Dir) Lock() error {
	return d.lockWith(d.FindLogs) // another process may have moved them before it closed the database
}

// LockToRepair is Lock after FindOrAbandonLogs. The repair uses the FS of before, so the logs must not have
// moved since.
func (d *Dir) LockToRepair() error {
	before := d.Logs
	return d.lockWith(func() error {
		err := d.FindOrAbandonLogs()
		if err == nil && !d.Logs.Same(before) {
			err = errors.Newf("sievedb: another process moved the logs of %s when the repair began; repair it again", d.Path)
		}
		return err
	})
}

// LockToDestroy is Lock, but does not need the logs. If they are not in the given directory, it looks for
// them where the database recorded them.
func (d *Dir) LockToDestroy() error {
	return d.lockWith(func() error {
		err := d.FindLogs()
		if err != nil && d.logDir != "" {
			d.logDir = ""
			err = d.FindLogs()
		}
		if err == nil {
			return d.Logs.RefuseToDestroy()
		}
		if isLost(err) {
			d.Logs, d.FS = logsHere(d.o.FS, d.Path), d.o.FS
			return nil
		}
		return err
	})
}

func (d *Dir) lockWith(find func() error) (err error) {
	if d.lock, err = manifest.LockDir(d.o.FS, d.Path, d.o.ReadOnly); err != nil {
		removeDirs(d.o.FS, d.made)
		return err
	}
	found := false
	defer func() {
		if !found { // the file system panics
			_ = d.lock.Close()
		}
	}()
	if err = refuseLogs(d.o.FS, d.Path); err == nil { // another process may have put logs here
		err = find()
	}
	if err == nil {
		err = d.Logs.Lock(d.o.ReadOnly)
	}
	found = true
	if err != nil {
		return errors.CombineErrors(err, d.abandonLock())
	}
	return nil
}

// Verify returns an error if the directory is locked exclusively and its LOCK, or that of the logs, was taken away.
func (d *Dir) Verify() error {
	if d.lock == nil {
		return nil
	}
	if err := d.lock.Verify(); err != nil || d.Logs.lock == nil {
		return err
	}
	return d.Logs.lock.Verify()
}

// SetChanged says whether a database may have been made: Abandon then leaves LOCK.
func (d *Dir) SetChanged(changed bool) { d.changed = changed }

// abandonLock releases the lock, and removes what Prepare and Lock made.
func (d *Dir) abandonLock() error {
	if d.changed {
		return d.lock.Close()
	}
	err := d.lock.Abandon()
	removeDirs(d.o.FS, d.made)
	return err
}

// Close releases the locks, if there are any.
func (d *Dir) Close() error {
	if d.lock == nil {
		return nil
	}
	return errors.CombineErrors(d.Logs.Close(), d.lock.Close())
}

// Abandon releases the locks, if there are any, when opening has failed. It removes the file LOCK if
// Lock made it, and empty directories that Prepare made.
func (d *Dir) Abandon() error {
	if d.lock == nil {
		return nil
	}
	return errors.CombineErrors(d.Logs.Close(), d.abandonLock())
}

// Remove releases the locks and removes the files LOCK and the marks of a directory of logs, when all
// other files have been removed.
func (d *Dir) Remove() error { return errors.CombineErrors(d.Logs.Destroy(), d.lock.Remove()) }

// needDatabase refuses a directory without a database before it is locked, if none may be
// created: otherwise a wrong path would be left with a file LOCK in it. A program that creates
// a database locks first, so if LOCK exists, the check is repeated under the lock.
func (d *Dir) needDatabase() error {
	if !d.o.ErrorIfMissing && !d.o.ReadOnly {
		return nil
	}
	_, err := d.FS.Lstat(filepath.Join(d.Path, base.LockName))
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	files, err := manifest.ListDir(d.FS, d.Path)
	if err != nil || files.HasCurrent {
		return err
	}
	return d.mayCreate(files)
}

func (d *Dir) errMissing(cause error) error {
	why := "Options.ErrorIfMissing is set"
	if d.o.ReadOnly {
		why = "it is opened only for reading (Options.ReadOnly or OpenFollower)"
	}
	return errors.Wrapf(cause, "sievedb: there is no database in %s, and none is created, because %s", d.Path, why)
}

// Locked is called when the directory is locked. It refuses a database that exists, or one that does
// not, according to the options. If one is to be created, it prepares the directory: a mark of an
// earlier database is removed, and the directory's name made durable.
func (d *Dir) Locked(files manifest.DirFiles) error {
	if files.HasCurrent {
		if d.o.ErrorIfExists {
			return errors.Wrapf(fs.ErrExist, "sievedb: there is a database in %s already, and Options.ErrorIfExists is set", d.Path)
		}
		return nil
	}
	if err := d.mayCreate(files); err != nil {
		return err
	}
	return errors.CombineErrors(manifest.DropCloseMark(d.FS, d.Path, files.All), d.syncParent())
}

// mayCreate refuses to create a database over the remains of one.
func (d *Dir) mayCreate(files manifest.DirFiles) error {
	if err := refuseRemains(d.FS, d.Path, files); err != nil {
		return err
	}
	if d.o.ErrorIfMissing || d.o.ReadOnly {
		return d.errMissing(fs.ErrNotExist)
	}
	return nil
}

// syncParent makes the name of the directory durable before a database is created in it: a failed attempt to open, or
// another program, may have created the directory without doing so. A parent without read permission is not synced.
func (d *Dir) syncParent() error {
	parents := []string{filepath.Dir(filepath.Clean(d.Path))}
	info, err := d.FS.Lstat(d.Path)
	if err != nil {
		return err
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		// The directory above the link contains only the link. The system finds the one above
		// the linked directory; filepath.Join would remove the dots.
		parents = append(parents, d.Path+string(filepath.Separator)+"..")
	}
	for _, parent := range parents {
		if err := d.FS.SyncDir(parent); err != nil && !errors.Is(err, fs.ErrPermission) {
			return err
		}
	}
	return nil
}
