package db

import (
	"github.com/sievedb/sievedb/internal/errors"
	"github.com/sievedb/sievedb/internal/foreign"
	"github.com/sievedb/sievedb/internal/manifest"
	"github.com/sievedb/sievedb/internal/repair"
	"github.com/sievedb/sievedb/sstable"
)

// Repair rebuilds the database in dir, by SieveDB, LevelDB or goleveldb, from
// its tables and logs, whatever became of CURRENT and MANIFEST. Afterwards Open
// succeeds and every Get returns the newest surviving version of its key, by
// sequence number. RepairWithReport does the same and tells what it found.
//
// Options.FS, Comparer, Filters and Tables are used; nil opts are the defaults. A database that a readable MANIFEST says has another
// comparer is refused; without a MANIFEST, Options.Comparer is believed, and a
// wrong one makes sound tables look damaged. The error is ErrLocked when the
// directory is in use, ErrForeign when it is another engine's, fs.ErrNotExist
// where it holds no database, and ErrCorruption where nothing in its files can be
// read; the directory is then left as it was. A file that cannot be read for
// another reason than its content ends the repair with that error: copy what a
// failing disk still gives to another one first.
//
// # What it does
//
//   - Every table in use is read whole and every entry checked. Tables without
//     fault stay as they are. Of a damaged one the readable blocks are taken over
//     to new tables; the index is not needed for that.
//   - Every log in use is read, behind damage too.
//   - Where a MANIFEST can be read whole, its tables keep their levels, and what
//     comes from elsewhere is laid on top, in level 0, where it is newer than all
//     that they hold for the key. Without one, tables that meet no other go to the
//     last level as they are; those that overlap are merged to new ones there.
//     File numbers decide nothing: LevelDB's repair orders tables by them, and
//     then answers with old versions.
//   - Versions that a newer one hides and tombstones are kept in a merge; of two
//     entries with one key and sequence, as an interrupted compaction leaves them,
//     one is. Where the sequence is 0, as compactions write it when nothing is older,
//     that of the newer file is.
//   - Tables of a load (Loader) that a whole MANIFEST does not know as committed go to
//     dir/lost: a crash may have left a part of them. Where no MANIFEST can be read whole,
//     or its last edit is cut off, they cannot be told from others and are taken over.
//
// # What is lost, and what may come back
//
// Nothing is deleted. Damaged, superseded and unused files go to dir/lost, where
// none is overwritten. They can be removed when the result is found good. The
// space needed in the meantime is that of the tables that are written anew: all
// of them, in the worst case.
//
// A table that a compaction has replaced may still wait for its removal. Whether
// one does only the MANIFEST tells; where it cannot be read,
// RepairReport.MayResurrect is set, because a deleted key whose tombstone the
// compaction had dropped comes back with such a table, and an older value of a key
// whose sequence number it had dropped. (Inputs of one compaction are removed in an
// order in which their rests do no such harm.) So may a part of a load whose Commit
// was under way when a crash came. The loss of a table or
// block brings back older versions and deleted keys too, where the newer
// version or the tombstone was in it.
//
// # Crashes
//
// New files are complete and durable before anything is moved, and CURRENT is
// switched last. A repair that was interrupted leaves a directory on which
// Repair has the same result. A database without fault is not touched at all.
func Repair(dir string, opts *Options) error {
	_, err := RepairWithReport(dir, opts)
	return err
}

// RepairWithReport is Repair and returns what it found and did; nil after an
// error.
func RepairWithReport(dir string, opts *Options) (*RepairReport, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	o := opts.withDefaults()
	dir, err := manifest.AbsoluteDir(o.FS, dir)
	if err != nil {
		return nil, err
	}
	if o.ReadOnly {
		return nil, errors.Wrapf(ErrReadOnly, "sievedb: Options.ReadOnly forbids to repair %s", dir)
	}
	// Looked at before the lock, whose file would be created.
	if err := foreign.Refuse(o.FS, dir, o.Limits.ManifestRead); err != nil {
		return nil, err
	}
	r, err := repair.New(o.repairOptions(dir))
	if err != nil {
		return nil, err
	}
	lock, err := manifest.LockDir(o.FS, dir, false)
	if err != nil {
		return nil, err
	}
	report, err := r.Run()
	if err != nil {
		unlock := lock.Abandon
		if r.MovedFiles() {
			unlock = lock.Close
		}
		return nil, errors.CombineErrors(err, unlock())
	}
	if err := lock.Close(); err != nil {
		return nil, err
	}
	o.Logger.Info("repaired", "healthy", report.Healthy, "tablesWritten", report.TablesWritten,
		"entriesWritten", report.EntriesWritten, "lastSequence", report.LastSequence)
	return newRepairReport(dir, report), nil
}

// repairOptions are those of a repair of the database in dir. o is complete.
func (o *Options) repairOptions(dir string) repair.Options {
	cache := o.cacheOptions(dir, nil, func(f *manifest.FileMeta, status sstable.FilterStatus) {
		if info, ok := unusableFilter(f, status); ok {
			o.logFilter(info)
			if report := o.EventListener.FilterUnusable; report != nil {
				report(info)
			}
		}
	})
	return repair.Options{
		FS: o.FS, Dir: dir, Comparer: o.Comparer, Logger: o.Logger,
		Table: o.tableOptions(), TableSize: uint64(o.Tables.Size), WriteBufferSize: o.Memtables.Size,
		Cache: cache, BlockCacheSize: o.Cache.Size,
		Policies: o.checkPolicies(), RangePolicies: o.Filters.RangePolicies, ManifestReadLimit: o.Limits.ManifestRead,
	}
}

// newRepairReport is the public form of a report.
func newRepairReport(dir string, r *repair.Findings) *RepairReport {
	report := &RepairReport{
		Dir: dir, Healthy: r.Healthy, Manifest: r.Manifest, ManifestProblem: r.ManifestProblem, MayResurrect: r.MayResurrect,
		TablesWritten: r.TablesWritten, BytesWritten: r.BytesWritten, EntriesWritten: r.EntriesWritten,
		EntriesDuplicate: r.EntriesDuplicate, EntriesConflicting: r.EntriesConflicting,
		EntriesShadowed: r.EntriesShadowed, EntriesTooLarge: r.EntriesTooLarge,
		LastSequence: r.LastSequence, NewManifest: r.NewManifest,
	}
	for _, f := range r.Files {
		report.Files = append(report.Files, RepairedFile{
			Name: f.Name, Fate: FileFate(f.Fate), Level: f.Level, LostName: f.LostName, Reason: f.Reason, Damage: f.Damage,
			Bytes: f.Bytes, BytesLost: f.BytesLost, Blocks: f.Blocks, BlocksLost: f.BlocksLost, Entries: f.Entries,
		})
	}
	return report
}
