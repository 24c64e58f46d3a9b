package db

import (
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/errors"
	"github.com/sievedb/sievedb/internal/manifest"
	"github.com/sievedb/sievedb/vfs"
)

// Repair rebuilds the database in dir, by SieveDB, LevelDB or goleveldb, from
// its tables and logs, whatever became of CURRENT and MANIFEST. Afterwards Open
// succeeds and every Get returns the newest surviving version of its key, by
// sequence number. RepairWithReport does the same and tells what it found.
//
// Options.FS, Comparer, Filter and those that shape tables are used; nil opts
// are the defaults. A database that a readable MANIFEST says has another
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
	r := &repairer{opts: opts.withDefaults(), maxFanIn: repairFanIn}
	r.fs, r.cmp = r.opts.FS, r.opts.Comparer
	var err error
	if r.dir, err = absoluteDir(r.fs, dir); err != nil {
		return nil, err
	}
	r.report = &RepairReport{Dir: r.dir}
	if r.opts.ReadOnly {
		return nil, errors.Wrapf(ErrReadOnly, "sievedb: Options.ReadOnly forbids to repair %s", r.dir)
	}
	// Looked at before the lock, whose file would be created.
	if err := refuseForeign(r.fs, r.dir, &r.opts); err != nil {
		return nil, err
	}
	if err := r.list(); err != nil {
		return nil, err
	}
	lock, err := lockDir(r.fs, r.dir, false)
	if err != nil {
		return nil, err
	}
	if err := base.Catch(r.cmp, "Repair", r.run); err != nil {
		unlock := lock.Abandon
		if r.made == nil { // it has moved files
			unlock = lock.Close
		}
		r.abandon()
		err = errors.Wrapf(err, "sievedb: repairing %s", r.dir)
		return nil, errors.CombineErrors(err, unlock())
	}
	if err := lock.Close(); err != nil {
		return nil, err
	}
	r.opts.Logger.Info("repaired", "healthy", r.report.Healthy, "tablesWritten", r.report.TablesWritten,
		"entriesWritten", r.report.EntriesWritten, "lastSequence", r.report.LastSequence)
	return r.report, nil
}

// repairer carries a repair from step to step; run names them.
type repairer struct {
	opts   Options // complete
	fs     vfs.FS
	dir    string
	cmp    *base.Comparer
	report *RepairReport

	files    []repairFile // what the directory holds
	manifest manifestFindings
	tables   []*foundTable
	logs     []*foundLog

	nextNum  uint64 // above the numbers of all files, found or made
	lastSeq  uint64 // the greatest seen, kept or not
	maxFanIn int
	made     map[string]bool // files that we made; abandon removes them
}

// repairFile is a file of the directory whose name is one of the format's.
type repairFile struct {
	manifest.DirFile
	name string
}

// canonical reports whether the file has the name that Open looks for, and a
// number that leaves room for others.
func (f *repairFile) canonical() bool {
	return f.name == base.FileName(f.Kind, f.Num) && f.Num < maxRepairNum
}

// maxRepairNum bounds the file numbers that count: numbers are handed out above
// the greatest, and a crafted name must not use up those that Open accepts.
const maxRepairNum = uint64(1) << 61

func (r *repairer) path(name string) string { return filepath.Join(r.dir, name) }

// run does the repair; the directory is locked.
func (r *repairer) run() error {
	r.made = map[string]bool{}
	if err := r.list(); err != nil {
		return err
	}
	if err := r.readManifests(); err != nil {
		return err
	}
	r.chooseNumbers()
	if err := r.scanTables(); err != nil {
		return err
	}
	plan := r.findLive()
	if err := r.scanLogs(); err != nil {
		return err
	}
	if err := r.plan(plan); err != nil {
		return err
	}
	r.report.Manifest = r.manifest.name
	r.report.LastSequence = r.lastSeq
	if plan.healthy {
		r.report.Healthy = true
		plan.untouched(r)
		r.report.list(plan.lines)
		return nil
	}
	if err := r.refuseUnread(plan); err != nil {
		return err
	}
	if _, err := vfs.PlainDir(r.fs, r.path(manifest.LostDir)); err != nil {
		return err // before anything is made
	}
	salvaged, err := r.salvage(plan)
	if err != nil {
		return err
	}
	plan.unplaced = append(plan.unplaced, salvaged...)
	if err := r.construct(plan); err != nil {
		return err
	}
	if err := r.install(plan); err != nil {
		return err
	}
	r.report.list(plan.lines)
	return nil
}

// list reads the directory.
func (r *repairer) list() error {
	names, err := r.fs.List(r.dir)
	if err != nil {
		return err
	}
	r.files = r.files[:0]
	some := false
	for _, name := range names {
		kind, num, ok := base.ParseFileName(name)
		if !ok {
			continue
		}
		info, err := manifest.StatOwn(r.fs, r.path(name), kind)
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed since: a store has the directory open, and its lock will tell
		}
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() {
			continue
		}
		r.files = append(r.files, repairFile{manifest.DirFile{Kind: kind, Num: num, Size: info.Size()}, name})
		some = some || slices.Contains(databaseKinds, kind)
	}
	if !some {
		return errors.Wrapf(fs.ErrNotExist, "sievedb: there is nothing to repair in %s: it holds no table, log, MANIFEST or CURRENT", r.dir)
	}
	return nil
}

// databaseKinds are the files that make a directory the remains of a database.
var databaseKinds = []base.FileKind{base.FileTable, base.FileOldTable, base.FileLog, base.FileManifest, base.FileCurrent}

// ofKind returns the files of those kinds, by number and then by name.
func (r *repairer) ofKind(kinds ...base.FileKind) []repairFile {
	var out []repairFile
	for _, f := range r.files {
		if slices.Contains(kinds, f.Kind) {
			out = append(out, f)
		}
	}
	slices.SortStableFunc(out, func(a, b repairFile) int {
		switch {
		case a.Num < b.Num:
			return -1
		case a.Num > b.Num:
			return 1
		}
		return 0
	})
	return out
}

// chooseNumbers makes nextNum greater than every number found.
func (r *repairer) chooseNumbers() {
	r.nextNum = max(r.manifest.nextNum, 1)
	for _, f := range r.files {
		if f.Num < maxRepairNum {
			r.nextNum = max(r.nextNum, f.Num+1)
		}
	}
}

func (r *repairer) newNum() uint64 {
	r.nextNum++
	return r.nextNum - 1
}

// abandon removes what a repair that failed has made. The MANIFEST goes first,
// and for good: the next repair would believe one whose tables are gone, and
// take the logs for superseded.
func (r *repairer) abandon() {
	warn := func(name string, err error) {
		r.opts.Logger.Warn("cannot remove a file of the failed repair", "file", name, "err", err)
	}
	if name := r.report.NewManifest; r.made[name] {
		err := r.fs.Remove(r.path(name))
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			err = r.fs.SyncDir(r.dir)
		}
		if err != nil {
			warn(name, err)
			return
		}
	}
	for name := range r.made {
		if err := r.fs.Remove(r.path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			warn(name, err)
		}
	}
}
