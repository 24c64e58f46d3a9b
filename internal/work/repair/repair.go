package repair

import (
	"cmp"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"time"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/filter/rangefilter"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/disk/tables"
	"github.com/sievedb/sievedb/sstable"
	"github.com/sievedb/sievedb/vfs"
)

// Options are the options of a repair. All are required.
type Options struct {
	FS       vfs.FS
	Dir      string
	Comparer *base.Comparer
	Logger   *slog.Logger

	Table           sstable.WriterOptions // of new tables
	TableSize       uint64                // approximate, in bytes; 0: by the size of the database
	WriteBufferSize int                   // of the memtables that sort the entries of logs

	Cache          tables.CacheOptions // of tables that stay; Reader.Cache is set here
	BlockCacheSize int64
	// Filters of these policies must not deny a key or range of their table.
	Policies      []filter.Policy
	RangePolicies []rangefilter.Policy

	ManifestReadLimit int64
	LogsMarked        bool // see manifest.SetOptions
	DryRun            bool // examine the directory, and change nothing
	Now               func() time.Time
}

// New examines the directory, which need not be locked yet. It returns fs.ErrNotExist if there is no database.
func New(o Options) (*Repairer, error) {
	r := &Repairer{opts: o, fs: o.FS, dir: o.Dir, cmp: o.Comparer, maxFanIn: FanIn, report: &Findings{}}
	return r, r.list()
}

// Run repairs the directory, which the caller has locked. After an error it removes the files that it
// made, unless it has moved files already; see MovedFiles.
func (r *Repairer) Run() (*Findings, error) {
	if err := base.Catch(r.cmp, "Repair", r.steps); err != nil {
		if r.made != nil {
			r.abandon()
		}
		return nil, errors.Wrapf(err, "sievedb: repairing %s", r.dir)
	}
	return r.report, nil
}

// MovedFiles reports whether a failed repair has moved files. They stay in lost/.
func (r *Repairer) MovedFiles() bool { return r.made == nil }

// Repairer carries a repair from step to step; steps names them.
type Repairer struct {
	opts   Options
	fs     vfs.FS
	dir    string
	cmp    *base.Comparer
	report *Findings

	files    []dirFile // the content of the directory
	manifest manifestFindings
	tables   []*foundTable
	logs     []*foundLog

	values valueFinder
	order  order

	nextNum uint64 // above the numbers of all files
	lastSeq uint64 // the greatest sequence number found
	// reached is the last operation in the tables that the MANIFEST names and in the logs read so far,
	// and missingOps those that are known to have been before a log or before the last Close.
	reached    uint64
	missingOps []opRange
	maxFanIn   int
	sealed     sealer          // of fillers, otherwise nil
	made       map[string]bool // files that the repair made; abandon removes them
	before     []interrupted   // the repair whose MANIFEST this one uses, if that was interrupted
	noted      bool            // begin was called for the MANIFEST
}

// opRange is a range of sequence numbers, with both bounds.
type opRange struct{ first, last uint64 }

// missesUpTo notes that operations up to last are missing if they were not reached.
func (r *Repairer) missesUpTo(last uint64) (missing opRange, ok bool) {
	if r.reached >= last {
		return opRange{}, false
	}
	missing = opRange{r.reached + 1, last}
	r.missingOps = append(r.missingOps, missing)
	r.reached = last
	return missing, true
}

// dirFile is a file of the directory whose name belongs to the format.
type dirFile struct {
	manifest.DirFile
	name string
}

// canonical reports whether the file has the name that Open looks for, and a number that leaves room for others.
func (f *dirFile) canonical() bool {
	return f.name == base.FileName(f.Kind, f.Num) && f.Num < maxNum
}

// maxNum bounds the file numbers that determine new ones. New numbers are above the greatest, and a
// crafted name must not exhaust the numbers that Open accepts.
const maxNum = uint64(1) << 61

func (r *Repairer) path(name string) string { return filepath.Join(r.dir, name) }

// steps does the repair; the directory is locked.
func (r *Repairer) steps() error {
	r.made = map[string]bool{}
	defer r.closeValues()
	if err := r.list(); err != nil {
		return err
	}
	if err := r.readManifests(); err != nil {
		return err
	}
	r.chooseNumbers()
	plan, err := r.examine()
	if err == nil && len(r.missingOps) > 0 && r.manifest.newer != nil {
		r.useNewer()
		plan, err = r.examine()
	}
	if err != nil {
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
	if err := r.refuseOtherOrder(); err != nil {
		return err
	}
	if err := r.refuseUnread(plan); err != nil {
		return err
	}
	r.findLosses(plan)
	if err := r.addInterrupted(); err != nil {
		return err
	}
	if r.opts.DryRun {
		if err := r.foretell(plan); err != nil {
			return err
		}
		r.report.list(plan.lines)
		return nil
	}
	if _, err := vfs.PlainDir(r.fs, r.path(manifest.LostDir)); err != nil {
		return err // before anything is made
	}
	if err := r.write(plan); err != nil {
		return err
	}
	if err := r.install(plan); err != nil {
		return err
	}
	r.report.list(plan.lines)
	return nil
}

// write writes the tables of the result.
func (r *Repairer) write(plan *plan) error {
	if err := r.salvageValues(); err != nil {
		return err
	}
	salvaged, err := r.salvage(plan)
	if err != nil {
		return err
	}
	plan.unplaced = append(plan.unplaced, salvaged...)
	if err := r.construct(plan); err != nil {
		return err
	}
	if err := r.fill(plan); err != nil {
		return err
	}
	r.discardValues()
	return nil
}

// examine reads the tables and logs, and plans what to do according to the chosen MANIFEST.
func (r *Repairer) examine() (*plan, error) {
	r.tables, r.logs, r.missingOps, r.lastSeq, r.order = nil, nil, nil, 0, order{}
	r.report.MayResurrect, r.report.Damaged = false, false
	err := r.scanValues()
	if err == nil {
		err = r.scanTables()
	}
	if err != nil {
		return nil, err
	}
	plan := r.findLive()
	if err := r.scanLogs(plan); err != nil {
		return nil, err
	}
	return plan, r.plan(plan)
}

// list reads the directory.
func (r *Repairer) list() error {
	names, err := r.fs.List(r.dir)
	if err != nil {
		return err
	}
	r.files = r.files[:0]
	found := false
	for _, name := range names {
		kind, num, ok := base.ParseFileName(name)
		if !ok {
			continue
		}
		info, err := manifest.StatOwn(r.fs, r.path(name), kind)
		if errors.Is(err, fs.ErrNotExist) {
			continue // just removed by a store, whose lock will be found
		}
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() {
			continue
		}
		if kind, err = r.kindOf(name, kind); err != nil {
			return err
		}
		r.files = append(r.files, dirFile{manifest.DirFile{Kind: kind, Num: num, Size: info.Size()}, name})
		found = found || slices.Contains(DatabaseKinds, kind)
	}
	if !found {
		return errors.NotExist("sievedb: nothing to repair in %s: it has no table, log, MANIFEST or CURRENT", r.dir)
	}
	return nil
}

// kindOf returns the kind of a file with that name and the kind of that name. A check of a file system leaves names
// that do not say which tables are value tables.
func (r *Repairer) kindOf(name string, kind base.FileKind) (base.FileKind, error) {
	if kind != base.FileTable && kind != base.FileOldTable && kind != base.FileValues {
		return kind, nil
	}
	reader, err := r.openTable(name)
	switch {
	case base.IsUnreadable(err):
		return kind, nil
	case err != nil:
		return kind, err
	case reader.IsValueTable():
		kind = base.FileValues
	case kind == base.FileValues && reader.FilterStatus().Err == nil:
		kind = base.FileTable
	}
	return kind, reader.Close()
}

// DatabaseKinds are the files that make a directory the remains of a database.
var DatabaseKinds = []base.FileKind{base.FileTable, base.FileOldTable, base.FileValues, base.FileLog, base.FileManifest, base.FileCurrent}

// ofKind returns the files of those kinds, by number and then by name.
func (r *Repairer) ofKind(kinds ...base.FileKind) []dirFile {
	var out []dirFile
	for _, f := range r.files {
		if slices.Contains(kinds, f.Kind) {
			out = append(out, f)
		}
	}
	slices.SortStableFunc(out, func(a, b dirFile) int { return cmp.Compare(a.Num, b.Num) })
	return out
}

// chooseNumbers makes nextNum greater than every number found.
func (r *Repairer) chooseNumbers() {
	r.nextNum = max(r.manifest.nextNum, 1)
	for _, f := range r.files {
		if f.Num < maxNum {
			r.nextNum = max(r.nextNum, f.Num+1)
		}
	}
}

func (r *Repairer) newNum() uint64 {
	r.nextNum++
	return r.nextNum - 1
}

// abandon removes the files that a failed repair has made. It removes the MANIFEST first, durably:
// otherwise the next repair could use a MANIFEST whose tables are gone, and ignore the logs.
func (r *Repairer) abandon() {
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
	if r.noted && len(r.before) == 0 { // else the note is also about the MANIFEST that the next repair uses
		_ = r.end() // Open could give its MANIFEST the number of this one
	}
	for name := range r.made {
		if err := r.fs.Remove(r.path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			warn(name, err)
		}
	}
}
