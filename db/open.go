package db

import (
	"io/fs"
	"path/filepath"
	"sync"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/counters"
	"github.com/sievedb/sievedb/internal/errors"
	"github.com/sievedb/sievedb/internal/expiry"
	"github.com/sievedb/sievedb/internal/filterplan"
	"github.com/sievedb/sievedb/internal/foreign"
	"github.com/sievedb/sievedb/internal/keyspace"
	"github.com/sievedb/sievedb/internal/lookup"
	"github.com/sievedb/sievedb/internal/manifest"
	"github.com/sievedb/sievedb/internal/replay"
	"github.com/sievedb/sievedb/internal/tables"
	"github.com/sievedb/sievedb/internal/txn"
	"github.com/sievedb/sievedb/sstable"
	"github.com/sievedb/sievedb/vfs"
)

// Open opens the database in the directory dir. It creates the database unless
// Options.ErrorIfMissing or ReadOnly say otherwise; nil opts mean the defaults. A LevelDB or
// goleveldb directory is opened in place. A relative dir refers to the present working
// directory; later changes of that do not matter.
//
// The error is ErrLocked if the directory is in use, ErrForeign if it belongs to another
// engine, and ErrCorruption if its files are damaged; Repair salvages the content of such a
// directory. After an error the directory is as it was before.
func Open(dir string, opts *Options) (*DB, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	now := newOptionsNow(opts)
	d := &DB{opts: now.full, closing: make(chan struct{}), writing: writing{turns: txn.NewTurns()}}
	d.present.Store(now)
	d.throttle = d.newThrottle()
	d.expiry = expiry.New(keyspace.Prefixes(d.opts.Expiry.Prefixes, d.opts.Expiry.Namespaces), d.opts.Expiry.Clock)
	if len(d.opts.Filters.RangePolicies) > 0 {
		d.ranges = new(counters.Ranges)
	}
	d.closed.open.Store(true)
	d.fs, d.cmp = d.opts.FS, d.opts.Comparer
	var err error
	if d.dir, err = manifest.AbsoluteDir(d.fs, dir); err != nil {
		return nil, err
	}
	d.files = tables.Directory{FS: d.fs, Path: d.dir, Logger: d.opts.Logger}
	d.cond = sync.NewCond(&d.mu)

	created, err := d.prepareDir()
	if err != nil {
		return nil, base.NoSpace(err)
	}
	lock, err := manifest.LockDir(d.fs, d.dir, d.opts.ReadOnly)
	if err != nil {
		return nil, base.NoSpace(err)
	}
	d.lock = lock
	d.blockCache = sstable.NewBlockCache(d.opts.Cache.Size)
	d.tables = tables.NewCache(d.opts.cacheOptions(d.dir, d.blockCache, d.reportFilter))
	d.writers = tables.NewSpareWriters(d.opts.spareWriters())
	d.finder.Init(lookup.Options{Cache: d.tables, Expiry: d.expiry, Closed: d.closed.Load, MaxOpenFiles: func() int { return d.options().Cache.MaxOpenFiles }, Measured: d.latency.Get.Record})
	d.obsolete = tables.NewObsolete(d.files, d.tables, func(num uint64) { notify(d, d.opts.EventListener.TableRemoved, num) })
	if err := base.Catch(d.cmp, "Open", func() error { return d.open(created) }); err != nil {
		if errors.Is(err, ErrCorruption) {
			// It may not be damaged: the file names of some engines' directories do not show the engine.
			if ferr := foreign.RefuseDir(d.fs, d.dir, d.opts.Limits.ManifestRead, false); errors.Is(ferr, ErrForeign) {
				err = ferr
			}
		}
		unlock := lock.Abandon
		if d.changed {
			unlock = lock.Close
		}
		closing := base.Catch(d.cmp, "Open", func() error { d.tables.Close(); return nil })
		closing = errors.CombineErrors(closing, base.Catch(d.cmp, "Open", unlock))
		return nil, base.NoSpace(errors.CombineErrors(d.readOnlyWouldDo(err), closing))
	}
	return d, nil
}

// prepareDir makes sure that the directory exists, and that it contains a database if none may
// be created. It reports whether it created the directory.
func (d *DB) prepareDir() (created bool, err error) {
	info, err := d.fs.Stat(d.dir)
	switch {
	case err == nil && !info.IsDir():
		return false, foreign.RefuseFile(d.fs, d.dir, info)
	case err == nil:
		// Before the lock: not even LOCK is created in another engine's directory.
		if err := foreign.RefuseDir(d.fs, d.dir, d.opts.Limits.ManifestRead, true); err != nil {
			return false, err
		}
		return false, d.needDatabase()
	case !errors.Is(err, fs.ErrNotExist):
		return false, foreign.NoDir(err)
	case d.opts.ErrorIfMissing || d.opts.ReadOnly:
		return false, errMissing(&d.opts, d.dir, err)
	}
	return true, vfs.MkdirAllSynced(d.fs, d.dir)
}

// needDatabase refuses a directory without a database before it is locked, if none may be
// created: otherwise a wrong path would be left with a file LOCK in it. A program that creates
// a database locks first, so if LOCK exists, the check is repeated under the lock.
func (d *DB) needDatabase() error {
	if !d.opts.ErrorIfMissing && !d.opts.ReadOnly {
		return nil
	}
	_, err := d.fs.Lstat(filepath.Join(d.dir, base.LockName))
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	files, err := manifest.ListDir(d.fs, d.dir)
	if err != nil || files.HasCurrent {
		return err
	}
	return d.mayCreate(files)
}

func errMissing(o *Options, dir string, cause error) error {
	why := "Options.ErrorIfMissing"
	if o.ReadOnly {
		why = "Options.ReadOnly"
	}
	return errors.Wrapf(cause, "sievedb: there is no database in %s, and %s is set, so none is created", dir, why)
}

// readOnlyWouldDo adds to the error of a full disk that the database can be read.
func (d *DB) readOnlyWouldDo(err error) error {
	if !base.IsNoSpace(err) || d.report.Created || d.opts.ReadOnly {
		return err
	}
	return errors.Wrap(err, "opening a database for writing needs some space; Options.ReadOnly opens it without")
}

// open is Open once the directory is locked.
func (d *DB) open(created bool) error {
	files, err := manifest.ListDir(d.fs, d.dir)
	if err != nil {
		return err
	}
	d.report.Created = created || !files.HasCurrent
	if files.HasCurrent {
		if d.opts.ErrorIfExists {
			return errors.Wrapf(fs.ErrExist, "sievedb: there is a database in %s already, and Options.ErrorIfExists is set", d.dir)
		}
	} else if err := d.mayCreate(files); err != nil {
		return err
	} else if err := errors.CombineErrors(manifest.DropCloseMark(d.fs, d.dir, files.All), d.syncParent()); err != nil {
		return err
	}
	o := manifest.SetOptions{
		FS: d.fs, Dir: d.dir, Cmp: d.cmp,
		MaxManifestSize: d.opts.Limits.ManifestSize, ReadLimit: d.opts.Limits.ManifestRead,
		MaxTables: len(files.All) + missingTables, Obsolete: d.obsolete.Add, NewHandle: tables.NewHandle, Clock: d.expiry.Seen,
	}
	var state manifest.State
	if files.HasCurrent {
		if d.set, state, err = manifest.Load(o); err != nil {
			return err
		}
	} else {
		d.set = manifest.New(o)
	}
	d.expiry.Advance(state.Time)
	d.plan = filterplan.New(d.opts.filterPlanOptions(), plannedTables{set: d.set, cache: d.tables})
	d.compactor = d.newCompactor()
	d.deleter = d.newDeleter()
	d.report.Manifest = state.ManifestName
	d.report.ManifestBytesDropped = state.Tail.Dropped
	for _, f := range files.All {
		d.set.MarkUsed(f.Num)
	}
	if err := d.recover(files, state); err != nil {
		return err
	}
	d.firstTable = d.set.NextFileNum()
	if !d.opts.ReadOnly {
		d.background.Add(2)
		go d.flushLoop()
		go d.cleanLoop()
		d.compactor.Schedule()
		d.compactor.WatchExpiry()
	}
	if d.opts.Cache.OpenAhead {
		d.background.Add(1)
		go d.openAhead()
	}
	return nil
}

// missingTables is how many tables more than files in the directory a MANIFEST may name and
// still be loaded, so that checkTables names one that is missing.
const missingTables = 1000

// syncParent makes the name of the directory durable before a database is created in it: a
// failed attempt to open, or another program, may have created the directory without doing so.
// A parent without read permission is not synced.
func (d *DB) syncParent() error {
	parents := []string{filepath.Dir(filepath.Clean(d.dir))}
	if info, err := d.fs.Lstat(d.dir); err == nil && info.Mode()&fs.ModeSymlink != 0 {
		// The directory above the link contains only the link. The system finds the one above
		// the linked directory; filepath.Join would remove the dots.
		parents = append(parents, d.dir+string(filepath.Separator)+"..")
	}
	for _, parent := range parents {
		if err := d.fs.SyncDir(parent); err != nil && !errors.Is(err, fs.ErrPermission) {
			return err
		}
	}
	return nil
}

// mayCreate refuses to create a database over the remains of one.
func (d *DB) mayCreate(files manifest.DirFiles) error {
	if err := replay.RefuseRemains(d.dir, files); err != nil {
		return err
	}
	if d.opts.ErrorIfMissing || d.opts.ReadOnly {
		return errMissing(&d.opts, d.dir, fs.ErrNotExist)
	}
	return nil
}
