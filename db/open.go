package db

import (
	"io/fs"
	"path/filepath"
	"sync"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/counters"
	"github.com/sievedb/sievedb/internal/errors"
	"github.com/sievedb/sievedb/internal/filterplan"
	"github.com/sievedb/sievedb/internal/foreign"
	"github.com/sievedb/sievedb/internal/manifest"
	"github.com/sievedb/sievedb/internal/tables"
	"github.com/sievedb/sievedb/sstable"
	"github.com/sievedb/sievedb/vfs"
)

// Open opens the database in the directory dir, and creates it unless
// Options.ErrorIfMissing or ReadOnly say otherwise; nil opts are the defaults.
// A LevelDB or goleveldb directory is opened in place. A relative dir counts from the
// working directory of this moment; a later change of that does not matter.
//
// The error is ErrLocked when the directory is in use, ErrCorruption when its
// files are damaged; Repair salvages what such a directory holds. It is ErrForeign
// when the directory is another engine's. After an error the directory holds what
// it held before.
func Open(dir string, opts *Options) (*DB, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	d := &DB{opts: opts.withDefaults(), lookups: new(counters.Lookups), closing: make(chan struct{})}
	d.throttle = d.newThrottle()
	if len(d.opts.RangeFilters) > 0 {
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
	d.blockCache = sstable.NewBlockCache(d.opts.BlockCacheSize)
	d.tables = tables.NewCache(d.opts.cacheOptions(d.dir, d.blockCache, d.reportFilter))
	d.writers = tables.NewSpareWriters(d.opts.MaxConcurrentCompactions+1, d.opts.spareWriterMemory()) // one is the flush's
	d.memHash = newMemHash(d.tables.Policies())
	d.obsolete = tables.NewObsolete(d.files, d.tables, func(num uint64) { tell(d, d.opts.EventListener.TableRemoved, num) })
	if err := base.Catch(d.cmp, "Open", func() error { return d.open(created) }); err != nil {
		if errors.Is(err, ErrCorruption) {
			// It may be no damage: not every directory shows by its names whose it is.
			if ferr := foreign.RefuseDir(d.fs, d.dir, d.opts.ManifestReadLimit, false); errors.Is(ferr, ErrForeign) {
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

// prepareDir makes sure that the directory is there, and that it holds a database where
// none may be created. It reports whether it made it.
func (d *DB) prepareDir() (created bool, err error) {
	info, err := d.fs.Stat(d.dir)
	switch {
	case err == nil && !info.IsDir():
		return false, foreign.RefuseFile(d.fs, d.dir, info)
	case err == nil:
		// Before the lock: not even LOCK is made in another engine's directory.
		if err := foreign.RefuseDir(d.fs, d.dir, d.opts.ManifestReadLimit, true); err != nil {
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

// needDatabase refuses a directory without a database before it is locked, where none
// may be created: a wrong path would be left with a file LOCK in it. Whoever creates
// one locks first; where LOCK is there, what else there is counts once it is ours.
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
	return errors.Wrapf(cause, "sievedb: there is no database in %s, and %s forbids to create one", dir, why)
}

// readOnlyWouldDo adds to the error of a full disk that the database can be read.
func (d *DB) readOnlyWouldDo(err error) error {
	if !base.IsNoSpace(err) || d.report.Created || d.opts.ReadOnly {
		return err
	}
	return errors.Wrap(err, "opening a database for writing needs some space; Options.ReadOnly opens it without")
}

// open does what Open does once the directory is locked.
func (d *DB) open(created bool) error {
	files, err := manifest.ListDir(d.fs, d.dir)
	if err != nil {
		return err
	}
	d.report.Created = created || !files.HasCurrent
	if files.HasCurrent {
		if d.opts.ErrorIfExists {
			return errors.Wrapf(fs.ErrExist, "sievedb: there is a database in %s already, and Options.ErrorIfExists forbids to open it", d.dir)
		}
	} else if err := d.mayCreate(files); err != nil {
		return err
	} else if err := errors.CombineErrors(d.dropStaleMark(files), d.syncParent()); err != nil {
		return err
	}
	o := manifest.SetOptions{
		FS: d.fs, Dir: d.dir, Cmp: d.cmp,
		MaxManifestSize: d.opts.MaxManifestSize, ReadLimit: d.opts.ManifestReadLimit,
		MaxTables: len(files.All) + missingTables, Obsolete: d.obsolete.Add, NewHandle: tables.NewHandle,
	}
	var state manifest.State
	if files.HasCurrent {
		if d.set, state, err = manifest.Load(o); err != nil {
			return err
		}
	} else {
		d.set = manifest.New(o)
	}
	d.plan = filterplan.New(d.opts.filterPlanOptions(), plannedTables{set: d.set, cache: d.tables})
	d.compactor = d.newCompactor()
	d.report.Manifest = state.ManifestName
	d.report.ManifestBytesDropped = state.Tail.Dropped
	for _, f := range files.All {
		d.set.MarkUsed(f.Num)
	}
	if err := d.checkTables(files); err != nil {
		return err
	}
	mark, doubt, err := d.checkClosed(files, state)
	if err != nil {
		return err
	}
	if err := d.checkLog(files, state); err != nil {
		return err
	}
	if doubt, err = manifest.Doubt(d.fs, d.dir, files, state, mark, doubt, d.report.MissingLog); err != nil {
		return err
	}
	if err := d.recover(files, state, mark, doubt); err != nil {
		return err
	}
	if !d.opts.ReadOnly {
		d.background.Add(2)
		go d.flushLoop()
		go d.cleanLoop()
		d.compactor.Schedule()
	}
	if d.opts.OpenTablesAhead {
		d.background.Add(1)
		go d.openAhead()
	}
	return nil
}

// missingTables is how many tables beyond the files of the directory a MANIFEST may
// name to be loaded all the same, so that checkTables tells one that is missing.
const missingTables = 1000

// syncParent makes the directory's own name durable before a database is created
// in it: an attempt to open that failed, or another program, may have made the
// directory without doing so. A parent that may not be read is left to its owner.
func (d *DB) syncParent() error {
	parents := []string{filepath.Dir(filepath.Clean(d.dir))}
	if info, err := d.fs.Lstat(d.dir); err == nil && info.Mode()&fs.ModeSymlink != 0 {
		// The directory above the link names only the link. The system finds the one
		// above the linked directory; filepath.Join would cut the dots off.
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
	for _, f := range files.All {
		if f.Kind == base.FileTable || f.Kind == base.FileOldTable || f.Kind == base.FileLog && f.Size > 0 {
			return base.InFile(base.Corruptf("CURRENT", -1, "it is missing, but %s is there: the directory holds the remains of a database; "+
				"Repair can rebuild it", base.FileName(f.Kind, f.Num)), filepath.Join(d.dir, base.CurrentName), -1)
		}
	}
	if d.opts.ErrorIfMissing || d.opts.ReadOnly {
		return errMissing(&d.opts, d.dir, fs.ErrNotExist)
	}
	return nil
}

// checkTables makes sure that every table that the version names is there, with
// its size, so that a MANIFEST which lost its tail or a directory that lost a
// file is told at once and not when a key is asked for.
func (d *DB) checkTables(files manifest.DirFiles) error {
	sizes := map[uint64]manifest.DirFile{}
	for _, f := range files.All {
		if f.Kind == base.FileTable || f.Kind == base.FileOldTable {
			if have, ok := sizes[f.Num]; !ok || have.Kind == base.FileOldTable {
				sizes[f.Num] = f
			}
		}
	}
	var err error
	d.set.Current().Files(func(level int, f *manifest.FileMeta) {
		have, ok := sizes[f.Num]
		f.OldSuffix = have.Kind == base.FileOldTable
		if err != nil {
			return
		}
		path := filepath.Join(d.dir, f.Name())
		if !ok {
			err = base.InFile(base.Corruptf("table", -1, "the file is missing; the MANIFEST names it on level %d with %d bytes", level, f.Size), path, -1)
		} else {
			err = tables.CheckSize(f, have.Size, path)
		}
	})
	return err
}

// checkLog tells a MANIFEST that a crash cut from one that lost an edit which had
// been in force: of the latter, the log that it names is gone, because that edit
// said it was not needed. It shows in a MANIFEST that is cut in the middle of an
// edit, and, where the cut is exactly behind one, in a later log that is there. A
// MANIFEST that is whole may name a log that is missing when there is no other, as
// LevelDB allows; that is reported.
//
// goleveldb's MANIFEST proves nothing of the kind: when an empty memtable is
// flushed, which compacting a whole database that was just flushed does, it starts
// a new log and removes the old one without an edit. There it is only reported.
func (d *DB) checkLog(files manifest.DirFiles, state manifest.State) error {
	if state.LogNum == 0 {
		return nil
	}
	later := ""
	for _, f := range files.All {
		if f.Kind == base.FileLog && f.Num == state.LogNum {
			return nil
		}
		if f.Kind == base.FileLog && f.Num > state.LogNum {
			later = base.FileName(f.Kind, f.Num)
		}
	}
	name := base.FileName(base.FileLog, state.LogNum)
	path := filepath.Join(d.dir, state.ManifestName)
	switch {
	case state.ByGoLevelDB:
	case state.Tail.Dropped > 0:
		return base.InFile(base.Corruptf("version edit", state.Tail.Offset, "the last edit is cut off, and %s, which the edits before need, is gone: "+
			"the edit was in force once; Repair can rebuild the MANIFEST", name), path, -1)
	case later != "":
		return base.InFile(base.Corruptf("version edit", state.Tail.Offset, "the edits need %s, which is gone, while %s is there: "+
			"an edit that came behind them is lost, or the log is; Repair can rebuild the MANIFEST", name, later), path, -1)
	}
	d.report.MissingLog = name
	d.opts.Logger.Warn("the log that the MANIFEST names is missing; what was only there is lost", "log", name, "goleveldb", state.ByGoLevelDB)
	return nil
}

// OpenReport says what Open found and did.
type OpenReport struct {
	// Created says that there was no database.
	Created bool
	// Manifest is the name of the MANIFEST that was read; "" for a new database.
	Manifest string
	// ManifestBytesDropped counts the bytes of a last edit that a crash cut off.
	ManifestBytesDropped int64
	// ClosedCleanly says that the database was closed by Close, and that no program
	// has written to it since. Every byte of the logs is known to have been written
	// then: what is wrong with one is damage, never the end that a crash left.
	ClosedCleanly bool
	// MissingLog is the log that the MANIFEST names, if it is not there: what had not
	// reached a table is lost then. "" normally.
	MissingLog string
	// Logs lists the logs that were replayed, oldest first.
	Logs []LogReport
	// FilesRemoved counts files that an earlier run left behind.
	FilesRemoved int
	// TablesSetAside lists tables that the MANIFEST does not name and that may hold
	// committed data all the same, since the MANIFEST may have lost edits: they were moved
	// to these places below the directory. They may be deleted if nothing is missing.
	TablesSetAside []string
}

// LogReport says what one log held.
type LogReport struct {
	Name             string
	Records, Entries uint64
	// Tail is "clean", "torn" (the end was cut, as a crash leaves it), "hole" (the
	// end was written in part only, as a power loss leaves it), "damaged" (Salvage
	// passed something over) or "not read" (it comes behind damage).
	Tail string
	// BytesDropped counts the bytes that hold no acknowledged write: those of the tail, and
	// a torn record in a log of another program that was appended to after a crash.
	BytesDropped int64
	// Reason says what is wrong with the first of them, or of those skipped.
	Reason string
	// GapBefore counts the operations that are missing between the log before and
	// this one: LevelDB and goleveldb do not sync a log before they go on with the
	// next, so a power loss may take its end. Before a log that SieveDB wrote a gap is
	// ErrCorruption, and is counted here if Options.Salvage ignores it.
	GapBefore uint64
	// BytesSkipped and RecordsSkipped count what Options.Salvage passed over: bytes
	// that do not decode, or that come behind such, and records that do not decode
	// although their checksums hold.
	BytesSkipped   int64
	RecordsSkipped uint64
	// SetAside is the file below the directory that keeps what was dropped or
	// skipped; "" where nothing was, and for a read-only opening.
	SetAside string

	ours bool // it begins with our preamble
}

// OpenReport returns what Open found and did; of a nil DB the zero OpenReport.
func (d *DB) OpenReport() OpenReport {
	if d == nil {
		return OpenReport{}
	}
	return d.report
}
