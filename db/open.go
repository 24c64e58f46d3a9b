package db

import (
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/base/expiry"
	"github.com/sievedb/sievedb/internal/disk/dbdir"
	"github.com/sievedb/sievedb/internal/disk/filterplan"
	"github.com/sievedb/sievedb/internal/disk/foreign"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/disk/tables"
	"github.com/sievedb/sievedb/internal/limit/share"
	"github.com/sievedb/sievedb/internal/read/counters"
	"github.com/sievedb/sievedb/internal/read/lookup"
	"github.com/sievedb/sievedb/internal/work/changes"
	"github.com/sievedb/sievedb/internal/write/flush"
	"github.com/sievedb/sievedb/internal/write/txn"
	"github.com/sievedb/sievedb/sstable"
	"github.com/sievedb/sievedb/vfs"
	"time"
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
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	now := newOptionsNow(opts)
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

// openPart is Open with checked options, and with part of what stores share, nil for nothing. If it fails because the
// disk is full, it frees the reserve and sets freed, which is nil if the reserve was freed before.
func openPart(dir string, now *optionsNow, part *share.Store, follow bool, freed *bool) (*DB, error) {
	d := &DB{opts: now.full, stop: stop{closing: make(chan struct{})}, txns: transactions{turns: txn.NewTurns()}}
	d.inForce.options.Store(now)
	d.share = part
	if len(d.opts.Filters.RangePolicies) > 0 {
		d.counters.ranges = new(counters.Ranges)
	}
	d.closed.open.Store(true)
	var err error
	if d.dir, err = dbdir.Open(dir, d.opts.dirOptions()); err != nil {
		return nil, err
	}
	created, err := d.dir.Prepare()
	if err == nil && !follow {
		err = d.dir.Lock()
	}
	if err != nil {
		return nil, base.NoSpace(err)
	}
	d.counters.opened = time.Now()
	d.files = tables.Directory{FS: d.dir.FS, Path: d.dir.Path, Logger: d.opts.Logger, Owned: d.dir.Verify}
	if follow {
		d.newFollower()
	}
	if d.opts.ReadOnly && !follow {
		d.feeds.found = changes.NewDirectory(d.files.FS, d.files.Path, nil)
	}
	d.commit = d.newCommitter()
	if !d.opts.ReadOnly {
		d.dir.Reserve = dbdir.ReserveFor(d.files.FS, d.files.Path, d.opts.Limits.DiskReserve, int64(1+d.opts.Memtables.MaxWaiting)*int64(d.opts.Memtables.Size))
	}
	blocks := sstable.NewBlockCacheInPool(part.Blocks(), d.opts.Cache.Size)
	cached := d.opts.cacheOptions(d.files, blocks, d.reportFilter)
	cached.Pool, cached.Guard, cached.Memory = part.Tables(), d.commit.Guard, part.TableMemory()
	if part == nil {
		cached.Memory = share.NewTableMemory(d.opts.Cache.tableMemory(), 0, false)
	}
	d.tables = tables.NewCache(cached)
	d.tables.SetBeside(d.opts.Cache.besideBlocks())
	d.writers.spares = tables.NewSpareWriters(d.opts.spareWriters())
	d.finder.Init(lookup.Options{Cache: d.tables, Closed: d.closed.Load, MaxOpenFiles: func() int { return d.options().Cache.MaxOpenFiles }, Measured: d.counters.latency.Get.Record})
	d.scans = d.scanSource()
	if follow && !d.opts.Expiry.Raw {
		d.setExpiry(expiry.NewGrowing(nil, d.opts.Expiry.Clock)) // each view has the prefixes
	}
	obsolete := tables.NewObsolete(d.files, d.tables, func(num uint64) { notify(d, d.opts.EventListener.TableRemoved, num) })
	if err := base.Catch(d.opts.Comparer, "Open", func() error { return d.open(created, obsolete) }); err != nil {
		if base.IsUnreadable(err) {
			// It may be neither damaged nor newer: the file names of some engines' directories do not show the engine.
			if ferr := foreign.RefuseDir(d.files.FS, d.files.Path, d.opts.Limits.ManifestRead, false); errors.Is(ferr, ErrForeign) {
				err = ferr
			}
		}
		if freed != nil && base.IsNoSpace(err) {
			*freed = d.dir.Reserve.Free()
		}
		closing := base.Catch(d.opts.Comparer, "Open", func() error { d.tables.Close(); d.tables.Blocks().Close(); return nil })
		closing = errors.CombineErrors(closing, base.Catch(d.opts.Comparer, "Open", d.dir.Abandon))
		return nil, base.NoSpace(errors.CombineErrors(d.readOnlyWouldDo(err), closing))
	}
	d.beginReserve(freed == nil)
	return d, nil
}

// dirOptions returns the options of the database's directory. o has all defaults filled in.
func (o *Options) dirOptions() dbdir.Options {
	return dbdir.Options{
		FS: o.FS, LogDir: o.LogDir, ErrorIfMissing: o.ErrorIfMissing, ErrorIfExists: o.ErrorIfExists, ReadOnly: o.ReadOnly,
		ManifestRead: o.Limits.ManifestRead,
	}
}

// readOnlyWouldDo adds to the error of a full disk that the database can be read.
func (d *DB) readOnlyWouldDo(err error) error {
	if !base.IsNoSpace(err) || d.report.Created || d.opts.ReadOnly {
		return err
	}
	return errors.Wrap(err, "opening a database for writing needs some space; Options.ReadOnly opens it without")
}

// open is Open once the directory is locked.
func (d *DB) open(created bool, obsolete *tables.Obsolete) error {
	if d.follower != nil {
		return d.openFollower(obsolete)
	}
	files, err := manifest.ListDir(d.files.FS, d.files.Path)
	if err != nil {
		return err
	}
	d.report.Created = created || !files.HasCurrent
	if err := d.dir.Locked(files); err != nil {
		return err
	}
	o := manifest.SetOptions{
		FS: d.files.FS, Dir: d.files.Path, Cmp: d.opts.Comparer, LogsElsewhere: d.dir.Logs.Elsewhere(), LogsMarked: d.dir.Logs.Marked(),
		MaxManifestSize: d.opts.Limits.ManifestSize, ReadLimit: d.opts.Limits.ManifestRead,
		MaxTables: len(files.All) + missingTables, Obsolete: obsolete.Add, NewHandle: tables.NewHandle,
		Clock: func() uint64 { return d.scans.Expiry.Seen() }, Verify: d.dir.Verify,
	}
	var state manifest.State
	if files.HasCurrent {
		if d.set, state, err = manifest.Load(o); err != nil {
			return err
		}
	} else {
		d.set = manifest.New(o)
	}
	added, err := d.adoptExpiry(state.Recorded)
	if err != nil {
		return err
	}
	d.adoptOptions(&state)
	d.newWorkers(obsolete)
	d.report.Manifest = state.ManifestName
	d.report.ManifestBytesDropped = state.Tail.Dropped
	for _, f := range files.All {
		d.set.MarkUsed(f.Num)
	}
	if err := d.recover(files, state, added); err != nil {
		return err
	}
	d.txns.firstTable = d.set.NextFileNum()
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
	return nil
}

// newWorkers makes what works on the tables of d.set.
func (d *DB) newWorkers(obsolete *tables.Obsolete) {
	d.writers.plan = filterplan.New(d.opts.filterPlanOptions(), plannedTables{set: d.set, cache: d.tables})
	d.compactor = d.newCompactor(obsolete)
	d.flusher = flush.New(flush.Options{
		Cmp: d.opts.Comparer, Dir: d.files, Set: d.set, Obsolete: obsolete, Current: &d.finder.Current, Commit: d.commit,
		Compactor: d.compactor, Write: d.writeMemtable, RetireLog: d.retireLog,
		Ended:  func(i FlushInfo) { notify(d, d.opts.EventListener.FlushEnd, i) },
		Failed: d.reportBackground,
		Flushed: func(capacity int) {
			d.keepReserve()
			d.share.Trim(d.writers.spares)
			d.share.Memory().Flushed(capacity)
		},
	})
	d.bulk = d.newCoordinator()
}

// missingTables is how many tables more than files in the directory a MANIFEST may name and
// still be loaded, so that checkTables names one that is missing.
const missingTables = 1000
