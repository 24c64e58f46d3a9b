package db

import (
	"time"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/dbdir"
	"github.com/sievedb/sievedb/internal/disk/filterplan"
	"github.com/sievedb/sievedb/internal/disk/foreign"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/disk/tables"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/internal/limit/share"
	"github.com/sievedb/sievedb/internal/read/counters"
	"github.com/sievedb/sievedb/internal/read/lookup"
	"github.com/sievedb/sievedb/internal/read/scan"
	"github.com/sievedb/sievedb/internal/work/changes"
	"github.com/sievedb/sievedb/internal/write/txn"
	"github.com/sievedb/sievedb/sstable"
	"github.com/sievedb/sievedb/vfs"
)

// Open opens the database in the directory dir. It creates the database unless Options.ErrorIfMissing or ReadOnly say
// otherwise; nil opts mean the defaults. A LevelDB or goleveldb directory is opened in place. A relative dir refers to
// the present working directory; later changes of that do not matter.
//
// The error is ErrLocked if the directory is in use, ErrForeign if it belongs to another
// engine, and ErrCorruption if its files are damaged; Repair salvages the content of such a
// directory. After an error the directory is as it was before.
func Open(dir string, opts *Options) (*DB, error) { return openAs(dir, opts, false) }

// openAs is Open or OpenFollower.
func openAs(dir string, opts *Options, follow bool) (*DB, error) {
	now, err := newOptionsNow(opts)
	if err != nil {
		return nil, err
	}
	if now.full.ReadOnly = now.full.ReadOnly || follow; now.full.ReadOnly && now.passed.FS == nil {
		now.full.FS = vfs.NewOSForReading(now.full.FileMode)
	}
	part, err := now.full.Resources.join()
	if err != nil {
		return nil, err
	}
	var d *DB
	defer func() {
		if d == nil { // also if the file system panics
			part.Leave()
		}
	}()
	freed := false
	d, err = openPart(dir, now, part, follow, &freed)
	if freed { // the reserve: now there may be enough space
		d, err = openPart(dir, now, part, follow, nil)
	}
	return d, dbdir.ExplainLink(err, now.full.ReadOnly)
}

// opening is an Open in progress. It makes the parts in this order:
//
//  1. openDir: the directory and its lock, or what a follower sees of it
//  2. makeCaches: the write path, which does not write yet, and the cache of open tables, which ends the writes if
//     reading one panics
//  3. load or newFollower: the set of versions and, as the directory records them, which values expire, and which
//     changes are kept
//  4. makeWorkers: what reads tables and what writes them; compactions, bulk changes and flushes
//  5. recover or openFollower: the content of the logs, which is what readers see and a new MANIFEST, or a view
//
// Then the DB, whose parts these are, is open, and its goroutines start. What a part calls is there when it is made,
// with three exceptions, which are called later: a follower drops tables from the cache, which reads through the
// follower; the set asks for the time; and the end of a compaction wakes the bulk changes, which use the compactions.
type opening struct {
	*parts
	*live
	obsolete *tables.Obsolete
	// prefixes are those under which values expire although the directory has not recorded it.
	prefixes [][]byte
}

// openPart is Open with checked options, and with part of what stores share, nil for nothing. If it fails because the
// disk is full, it frees the reserve and sets freed, which is nil if the reserve was freed before.
func openPart(dir string, now *optionsNow, part *share.Store, follow bool, freed *bool) (*DB, error) {
	d := new(DB)
	d.parts = parts{opts: now.full, inForce: newOptionsInForce(now), share: part}
	o := &opening{parts: &d.parts, live: &d.live} // functions of the parts keep it, but no parts of its own
	created, err := o.openDir(dir, follow)
	if err != nil {
		return nil, base.NoSpace(err)
	}
	o.makeCaches()
	err = base.Catch(o.opts.Comparer, "Open", func() error {
		if err := o.open(created); err != nil {
			return err
		}
		d.closed.open.Store(true)
		d.start()
		return nil
	})
	if err != nil {
		return nil, o.abandon(err, freed)
	}
	if !d.opts.ReadOnly {
		d.dir.BeginReserve(freed == nil, d.closed.Load, d.opts.Logger)
	}
	return d, nil
}

// openDir opens and locks the directory. It reports whether it has made it.
func (o *opening) openDir(dir string, follow bool) (created bool, err error) {
	if o.dir, err = dbdir.Open(dir, o.opts.dirOptions()); err != nil {
		return false, err
	}
	created, err = o.dir.Prepare()
	if err == nil && !follow {
		err = o.dir.Lock()
	}
	if err != nil {
		return false, err
	}
	o.counters.opened = time.Now()
	o.stop.closing = make(chan struct{})
	o.files = tables.Directory{FS: o.dir.FS, Path: o.dir.Path, Logger: o.opts.Logger, Owned: o.dir.Verify}
	switch {
	case follow:
		o.newFollower()
	case o.opts.ReadOnly:
		o.feeds.found = changes.NewDirectory(o.files.FS, o.files.Path, nil)
	default:
		o.dir.Reserve = dbdir.ReserveFor(o.files.FS, o.files.Path, o.opts.Limits.DiskReserve, int64(1+o.opts.Memtables.MaxWaiting)*int64(o.opts.Memtables.Size))
	}
	return created, nil
}

// makeCaches makes what ends the writes after a failure, and what opens tables.
func (o *opening) makeCaches() {
	o.listenerCalls.listener, o.listenerCalls.Logger = o.opts.EventListener, o.opts.Logger
	o.commit = o.newCommitter()
	blocks := sstable.NewBlockCacheInPool(o.share.Blocks(), o.opts.Cache.Size)
	calls, current := &o.listenerCalls, &o.finder.Current
	cached := o.opts.cacheOptions(o.files, blocks, func(f *version.FileMeta, status sstable.FilterStatus) { calls.reportFilter(current, f, status) })
	cached.Pool, cached.Guard, cached.Memory = o.share.Tables(), o.commit.Guard, o.share.TableMemory()
	if o.share == nil {
		cached.Memory = share.NewTableMemory(o.opts.Cache.tableMemory(), 0, false)
	}
	o.tables = tables.NewCache(cached)
	o.tables.SetBeside(o.opts.Cache.besideBlocks())
	o.obsolete = tables.NewObsolete(o.files, o.tables, func(num uint64) { notify(calls, calls.listener.TableRemoved, num) })
}

// open is openPart once there is something to close if it fails.
func (o *opening) open(created bool) error {
	if o.follower != nil {
		return o.openFollower()
	}
	files, state, err := o.load(created)
	if err != nil {
		return err
	}
	o.makeWorkers()
	if err := o.recover(files, state); err != nil {
		return err
	}
	o.txns.firstTable = o.set.NextFileNum()
	return nil
}

// load makes the set of versions that the directory has, and adopts what the directory records.
func (o *opening) load(created bool) (files manifest.DirFiles, state manifest.State, err error) {
	if files, err = manifest.ListDir(o.files.FS, o.files.Path); err != nil {
		return files, state, err
	}
	o.report.Created = created || !files.HasCurrent
	if err := o.dir.Locked(files); err != nil {
		return files, state, err
	}
	options := manifest.SetOptions{
		FS: o.files.FS, Dir: o.files.Path, Cmp: o.opts.Comparer, LogsElsewhere: o.dir.Logs.Elsewhere(), LogsMarked: o.dir.Logs.Marked(),
		MaxManifestSize: o.opts.Limits.ManifestSize, ReadLimit: o.opts.Limits.ManifestRead,
		MaxTables: len(files.All) + missingTables, Obsolete: o.obsolete.Add, NewHandle: tables.NewHandle,
		Clock: func() uint64 { return o.scans.Expiry.Seen() }, Verify: o.dir.Verify,
	}
	if files.HasCurrent {
		o.set, state, err = manifest.Load(options)
	} else {
		o.set = manifest.New(options)
	}
	if err == nil {
		err = o.adoptExpiry(state.Recorded)
	}
	if err == nil {
		err = o.adoptOptions(&state)
	}
	if err != nil {
		return files, state, err
	}
	o.report.Manifest, o.report.ManifestBytesDropped = state.ManifestName, state.Tail.Dropped
	for _, f := range files.All {
		o.set.MarkUsed(f.Num)
	}
	return files, state, nil
}

// makeWorkers makes what reads and writes the tables of the set.
func (o *opening) makeWorkers() {
	ranges, inForce := (*counters.Ranges)(nil), o.inForce
	if len(o.opts.Filters.RangePolicies) > 0 {
		ranges = new(counters.Ranges)
	}
	o.counters.ranges = ranges
	o.finder.Init(lookup.Options{
		Cache: o.tables, Closed: o.closed.Load, Expiry: o.scans.Expiry, Measured: o.counters.latency.Get.Record,
		MaxOpenFiles: func() int { return inForce.full().Cache.MaxOpenFiles },
	})
	o.scans = scan.Source{
		Comparer: o.opts.Comparer, Tables: o.tables, Expiry: o.scans.Expiry, Ranges: ranges, Open: &o.closed.open,
		CacheSize: func() int64 { return inForce.full().Cache.Size }, Hindered: o.commit.Hindered,
	}
	o.writers = tableWriters{
		inForce: inForce, dir: o.files, set: o.set, expiry: o.scans.Expiry,
		plan:   filterplan.New(o.opts.filterPlanOptions(), plannedTables{set: o.set, cache: o.tables}),
		spares: tables.NewSpareWriters(o.opts.spareWriters()),
	}
	o.compactor = o.newCompactor()
	o.txns.turns = txn.NewTurns()
	o.flusher = o.newFlusher()
	o.bulk = o.newCoordinator()
}

// abandon closes what an Open that fails with err has opened. It returns the error of Open.
func (o *opening) abandon(err error, freed *bool) error {
	if base.IsUnreadable(err) {
		// It may be neither damaged nor newer: the file names of some engines' directories do not show the engine.
		if ferr := foreign.RefuseDir(o.files.FS, o.files.Path, o.opts.Limits.ManifestRead, false); errors.Is(ferr, ErrForeign) {
			err = ferr
		}
	}
	if freed != nil && base.IsNoSpace(err) {
		*freed = o.dir.Reserve.Free()
	}
	if base.IsNoSpace(err) && !o.report.Created && !o.opts.ReadOnly {
		err = errors.Wrap(err, "opening a database for writing needs some space; Options.ReadOnly opens it without")
	}
	closing := base.Catch(o.opts.Comparer, "Open", func() error { o.tables.Close(); o.tables.Blocks().Close(); return nil })
	closing = errors.CombineErrors(closing, base.Catch(o.opts.Comparer, "Open", o.dir.Abandon))
	return base.NoSpace(errors.CombineErrors(err, closing))
}

// start begins the background work.
func (d *DB) start() {
	if d.follower != nil && d.opts.FollowInterval > 0 {
		base.GoIn(&d.background, d.followLoop)
	}
	if !d.opts.ReadOnly {
		base.Unlabelled(func() {
			base.GoIn(&d.background, d.flusher.Run)
			base.GoIn(&d.background, d.cleanLoop)
		})
		d.compactor.Schedule()
		d.commit.AwaitQuiet()
		d.compactor.WatchExpiry()
		d.compactor.WatchSlots()
		if d.share != nil {
			base.GoIn(&d.background, d.yieldLoop)
		}
	}
	d.openTablesAhead()
}

// dirOptions returns the options of the database's directory. o has all defaults filled in.
func (o *Options) dirOptions() dbdir.Options {
	return dbdir.Options{
		FS: o.FS, LogDir: o.LogDir, ErrorIfMissing: o.ErrorIfMissing, ErrorIfExists: o.ErrorIfExists, ReadOnly: o.ReadOnly,
		ManifestRead: o.Limits.ManifestRead,
	}
}

// missingTables is how many tables more than files in the directory a MANIFEST may name and
// still be loaded, so that checkTables names one that is missing.
const missingTables = 1000
