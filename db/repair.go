package db

import (
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/dbdir"
	"github.com/sievedb/sievedb/internal/disk/foreign"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/disk/tables"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/internal/work/repair"
	"github.com/sievedb/sievedb/sstable"
)

// Repair rebuilds the database in dir, by SieveDB, LevelDB or goleveldb, from its tables and logs, whatever happened to
// CURRENT and MANIFEST. Afterwards Open succeeds and every Get returns the newest surviving version of its key, by
// sequence number. RepairWithReport does the same and returns a report.
//
// Repair uses Options.FS, Comparer, Filters and Tables; nil opts mean the defaults. It refuses
// a database with another comparer, according to a readable MANIFEST, or, without one of SieveDB, to tables
// that are sound and in another order. The error is
// ErrLocked if the directory is in use, ErrForeign if it belongs to another engine,
// fs.ErrNotExist if it contains no database, and ErrCorruption if nothing in its files can be
// read; the directory does not change then. Nor does it if something was written by a newer version,
// ErrNewer: its entries would be left out. A file that cannot be read for another reason than
// its content ends the repair with that error: copy what a failing disk still returns to
// another one first. If the logs are in another directory (Options.LogDir) that is missing, set LogDir to
// the database's own directory to repair it without them; RepairReport.LogsAbandoned then names it.
//
// # What it does
//
//   - Every table in use is read completely and every entry is checked. Tables without fault
//     stay as they are. The readable blocks of a damaged one are copied to new tables; the
//     index is not needed for that.
//   - Every log in use is read, also after damage.
//   - If CURRENT names an older MANIFEST than the newest one whose files all exist, that one is used, as
//     after old files were copied over newer ones.
//   - If a MANIFEST can be read completely, its tables keep their levels, and entries from
//     elsewhere are put on top, in level 0, if they are newer than all entries of these tables
//     for the key. Without one, tables that overlap no other go to the last level as they are;
//     those that overlap are merged to new ones there. File numbers decide nothing: LevelDB's
//     repair orders tables by them, and then returns old versions.
//   - A merge keeps shadowed versions and tombstones. Of two entries with one key and sequence
//     number, as an interrupted compaction leaves them, it keeps one. If the number is 0, as
//     compactions write it when nothing is older, it keeps that of the newer file.
//   - If a table that the MANIFEST names is missing, or has damaged blocks, tables that others had
//     replaced and logs whose entries had been written to tables fill its key range. Their
//     entries count only if no other file has a newer one of the key.
//     RepairReport.EntriesFilled counts them. So do value tables whose references are gone. So a copy that was made file by file while
//     the database was open keeps every key that its files have.
//   - Tables that a complete MANIFEST does not list go to dir/lost if the logs are complete as well.
//     A crash may have left a part of a load (Loader), an ingest or a deletion of a range. If the last
//     edit of the MANIFEST is cut off, it may have committed a load, which is used as a whole. If no MANIFEST can be
//     read completely, they look like other tables and are used. So are tables that the MANIFEST does not know: the
//     repair of another program left them out, or they are older than its log and have later entries than it.
//
// # What is lost, and what may come back
//
// Nothing is deleted. Damaged, superseded and unused files go to dir/lost, where no file is
// overwritten. Remove them when the result is good. Meanwhile the repair needs space for the
// tables that are rewritten: all of them, in the worst case.
//
// A table that a compaction has replaced may still wait for its removal. Only the MANIFEST
// says so; if it cannot be read, RepairReport.MayResurrect is set: with such a table, a
// deleted key comes back whose tombstone the compaction had dropped, or an older value of a
// key whose sequence number it had dropped. (Inputs of one compaction are removed in an order
// in which the remaining ones do no such harm.) A part of a load, an ingest or a deletion of a range may appear as
// well, if a crash interrupted it. RepairReport.MayResurrect is also set if replaced tables and logs
// fill the key range of a missing table, or value tables replace the entries that referred to their
// values: a key returns that was deleted before. The loss of
// a table or block also brings back older versions and deleted keys, if the newer version or the
// tombstone was in it.
//
// # Crashes
//
// New files are complete and durable before anything is moved, and CURRENT is switched last. A repair that was
// interrupted leaves a directory on which Repair has the same result. A database without fault is not touched at all.
func Repair(dir string, opts *Options) error {
	_, err := RepairWithReport(dir, opts)
	return err
}

// RepairWithReport is Repair and returns what it found and did; nil after an error.
func RepairWithReport(dir string, opts *Options) (*RepairReport, error) {
	return runRepair(dir, opts, false)
}

// PlanRepair returns the report of the repair that Repair would do, without doing it: it reads every file,
// and changes none. It locks the directory meanwhile as a reader does, so no other process may have it open for
// writing. Options.ReadOnly is allowed. Otherwise it returns the same errors as Repair. The report has no NewManifest
// and no counts of written entries and tables.
func PlanRepair(dir string, opts *Options) (*RepairReport, error) { return runRepair(dir, opts, true) }

func runRepair(dir string, opts *Options, dryRun bool) (*RepairReport, error) {
	report, err := repairOrPlan(dir, opts, dryRun)
	return report, dbdir.ExplainLink(err, false)
}

func repairOrPlan(dir string, opts *Options, dryRun bool) (*RepairReport, error) {
	now, err := newOptionsNow(opts)
	if err != nil {
		return nil, err
	}
	o := &now.full
	place := o.dirOptions()
	place.ReadOnly = dryRun // the lock of a reader, so that a disk that cannot be written has a plan as well
	home, err := dbdir.Open(dir, place)
	if err != nil {
		return nil, err
	}
	if o.ReadOnly && !dryRun {
		return nil, errors.Wrapf(ErrReadOnly, "sievedb: Options.ReadOnly is set, so %s is not repaired", home.Path)
	}
	// Checked before locking, which would create the lock file.
	if err := foreign.Refuse(o.FS, home.Path, o.Limits.ManifestRead); err != nil {
		return nil, err
	}
	if err := home.FindOrAbandonLogs(); err != nil {
		return nil, err
	}
	o.keepCompression(opts, home)
	ro := o.repairOptions(home)
	ro.DryRun = dryRun
	r, err := repair.New(ro)
	if err != nil {
		return nil, err
	}
	if err := home.LockToRepair(); err != nil {
		return nil, err
	}
	report, err := r.Run()
	if err != nil {
		unlock := home.Abandon
		if r.MovedFiles() {
			unlock = home.Close
		}
		return nil, errors.CombineErrors(err, unlock())
	}
	if dryRun {
		if err := home.Abandon(); err != nil {
			return nil, err
		}
		public := report.Public(home.Path)
		public.DryRun = true
		return public, nil
	}
	abandoned, err := home.Repaired(report.LogsElsewhere)
	if err = errors.CombineErrors(err, home.Close()); err != nil {
		return nil, err
	}
	o.Logger.Info("repaired", "healthy", report.Healthy, "tablesWritten", report.TablesWritten,
		"entriesWritten", report.EntriesWritten, "lastSequence", report.LastSequence)
	public := report.Public(home.Path)
	public.LogsAbandoned = abandoned
	return public, nil
}

// keepCompression decides about DefaultCompression in opts as Open does.
func (o *Options) keepCompression(opts *Options, home *dbdir.Dir) {
	if opts != nil && opts.Tables.Compression != DefaultCompression {
		return
	}
	files, err := manifest.ListDir(home.FS, home.Path)
	if err == nil && tables.WithoutSnappy(&tables.Directory{FS: home.FS, Path: home.Path, Logger: o.Logger}, files.All) {
		o.Tables.Compression = NoCompression
	}
}

// repairOptions returns the options of a repair. o has all defaults filled in.
func (o *Options) repairOptions(home *dbdir.Dir) repair.Options {
	cache := o.cacheOptions(tables.Directory{FS: o.FS, Path: home.Path}, nil, func(f *version.FileMeta, status sstable.FilterStatus) {
		if info, ok := unusableFilter(f, status); ok {
			logFilter(o.Logger, info)
			if report := o.EventListener.FilterUnusable; report != nil {
				report(info)
			}
		}
	})
	return repair.Options{
		FS: home.FS, Dir: home.Path, LogsMarked: home.Logs.Marked(), Comparer: o.Comparer, Logger: o.Logger,
		Table: o.tableOptions(), TableSize: uint64(o.Tables.Size), WriteBufferSize: o.Memtables.Size,
		Cache: cache, BlockCacheSize: o.Cache.Size,
		Policies: o.checkPolicies(), RangePolicies: o.Filters.RangePolicies, ManifestReadLimit: o.Limits.ManifestRead, Now: o.Expiry.Clock,
	}
}
