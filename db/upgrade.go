package db

import (
	"context"
	stderrors "errors"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/manifest"
	"github.com/sievedb/sievedb/sstable"
)

// UpgradeOptions say how UpgradeFilters goes about it. The zero value is the default.
type UpgradeOptions struct {
	// DryRun only tells what would be done. It reads of each table the filters and what
	// says how many keys it has, no more.
	DryRun bool
	// BytesPerSecond bounds what is read from tables, in the mean, so that lookups beside
	// it keep the disk to themselves; as much is written. 0: no bound.
	BytesPerSecond int64
	// Progress, if not nil, is called after each version of the store in which tables have new
	// filters, with the report up to there, in the goroutine of the call.
	Progress func(UpgradeReport)
}

// UpgradeReport is what UpgradeFilters did or, in a dry run, would do.
type UpgradeReport struct {
	Tables   int // that the store had
	Upgraded int // that were given new filters
	Current  int // that had them already
	Damaged  int // that could not be read through, and stay as they are
	// Bytes is what the upgraded tables took. As much is read, and about as much written.
	Bytes uint64
	// FilterBytesBefore and FilterBytesAfter are what the filters of the upgraded tables
	// took and take, all kinds together.
	FilterBytesBefore, FilterBytesAfter uint64
	// WastedReadsBefore and WastedReadsAfter are the reads from disk that a lookup of an
	// absent key was and is expected to make in vain in the upgraded tables, by the filters' mathematics,
	// with nothing cached: for each level the mean rate of false positives of its tables; in
	// level 0, where a lookup may ask each, their sum. A table without a filter counts for one.
	WastedReadsBefore, WastedReadsAfter float64
	Duration                            time.Duration
}

// UpgradeFilters gives each table the filters of policy, nil for Options.Filter, without compacting
// anything: a table's data blocks are copied as they are stored, its keys are read in the same
// pass, and a new end with filters and index is written behind them. The new table takes the
// old one's place in one edit of the MANIFEST, on the same level; only those of level 0 change
// places together. Lookups, writes and compactions go on.
//
// Tables that have these filters already are left alone, so that a call that was
// interrupted, by its context or a crash, is taken up by the next one. What was upgraded until then stays so.
// Where policy is nil and Options has a budget for filters, or the default filter, each table
// gets the bits of its level.
//
// New tables are always written with Options.Filter: open the store with the policy that
// is to stay. The policy must be one that the store reads: Options.Filter or one of ours.
//
// It needs free space for 32 MiB of tables, one table that is larger, or those of level 0. Tables that
// are damaged are passed over and counted, and the error, which comes at the end, wraps
// ErrCorruption then. o may be nil.
func (d *DB) UpgradeFilters(ctx context.Context, policy filter.Policy, o *UpgradeOptions) (UpgradeReport, error) {
	start := time.Now()
	u, err := d.newUpgrade(ctx, policy, o)
	if err != nil {
		return UpgradeReport{}, err
	}
	if u.o.DryRun {
		err = u.survey()
	} else {
		err = u.run()
	}
	u.report.Duration = time.Since(start)
	if err == nil {
		err = u.failed
	}
	if err == nil {
		err = u.damage
	}
	return u.report, err
}

// upgrade is one UpgradeFilters under way.
type upgrade struct {
	d      *DB
	ctx    context.Context
	o      UpgradeOptions
	policy filter.Policy
	bits   []filterBits // of each level, if they depend on it
	tables sstable.WriterOptions
	fresh  uint64                            // tables of this number and above came since
	known  map[*manifest.FileMeta]tableState // of tables that were looked into
	made   map[madeOf][]madeFilter
	levels [manifest.NumLevels]levelRates
	report UpgradeReport
	damage error // the first
	failed error // of the system, looking into a table
}

type tableState uint8

const (
	tableStale tableState = iota + 1
	tableCurrent
	tableDamaged
)

// madeOf is a policy, by the bits a key if they depend on the level, and a number of keys.
type madeOf struct{ bits, keys uint64 }

// madeFilter is what a kind of the policy makes of some number of keys.
type madeFilter struct {
	name  string
	bytes int
	exact bool // bytes is what it takes, whatever the keys
	rate  float64
}

// levelRates sums up the rates of false positives of a level's upgraded tables.
type levelRates struct{ tables, before, after float64 }

func (d *DB) newUpgrade(ctx context.Context, policy filter.Policy, o *UpgradeOptions) (*upgrade, error) {
	u := &upgrade{
		d: d, ctx: ctx, policy: policy, tables: d.opts.tableOptions(),
		known: map[*manifest.FileMeta]tableState{}, made: map[madeOf][]madeFilter{},
	}
	if o != nil {
		u.o = *o
	}
	if policy == nil {
		u.policy = d.opts.Filter
	}
	if policy == nil && d.opts.filtersByLevel() {
		u.bits = d.bitsByLevel()
	}
	switch {
	case d.closed.Load():
		return nil, ErrClosed
	case d.opts.ReadOnly && !u.o.DryRun:
		return nil, ErrReadOnly
	case u.o.BytesPerSecond < 0:
		return nil, errors.Newf("sievedb: UpgradeFilters: %d bytes a second; want 0 for no bound, or more", u.o.BytesPerSecond)
	}
	read := map[string]bool{}
	for _, p := range d.opts.readPolicies() {
		read[p.Name()] = true
	}
	for _, p := range filter.Kinds(u.policy) {
		if !read[p.Name()] {
			return nil, errors.Newf("sievedb: UpgradeFilters: this store would not read filters of %q; open it with that policy as Options.Filter", p.Name())
		}
	}
	d.state.Load().version.Files(func(int, *manifest.FileMeta) { u.report.Tables++ })
	return u, nil
}

// survey is a dry run.
func (u *upgrade) survey() error {
	s := u.d.refState()
	defer s.version.Unref()
	for level := range manifest.NumLevels {
		files := s.version.Levels[level].Files
		for _, f := range files {
			if err := u.interrupted(); err != nil {
				return err
			}
			u.look(level, f)
		}
		if level == 0 {
			files = u.together(files)
		}
		for _, f := range files {
			if level == 0 || u.known[f] == tableStale {
				u.upgraded(f)
			}
		}
	}
	u.sumUp()
	return nil
}

// upgraded counts a table that has been, or would be.
func (u *upgrade) upgraded(f *manifest.FileMeta) {
	if u.known[f] == tableCurrent {
		u.report.Current-- // it only went along
	}
	u.report.Upgraded++
	u.report.Bytes += f.Size
}

// together returns those tables of level 0 that must be upgraded in one edit: the order
// of level 0 is that of the tables' numbers, so that all that are newer than one that gets
// a new number get one as well. What is older than a damaged one must keep its own.
func (u *upgrade) together(all []*manifest.FileMeta) (files []*manifest.FileMeta) {
	for i, f := range all {
		switch u.known[f] {
		case tableDamaged:
			return files
		case tableStale:
			files = all[:i+1]
		}
	}
	return files
}

func (u *upgrade) interrupted() error {
	if u.d.closed.Load() {
		return ErrClosed
	}
	if u.failed != nil {
		return u.failed
	}
	return u.ctx.Err()
}

// upgradeStep is about how many bytes of tables are upgraded in one edit: each costs a sync of the MANIFEST
// and of the directory, and takes its tables from compactions meanwhile.
const upgradeStep = 32 << 20

// run upgrades one table after another. It begins at the top: compactions only move
// tables down.
func (u *upgrade) run() error {
	stop := context.AfterFunc(u.ctx, func() {
		u.d.mu.Lock()
		defer u.d.mu.Unlock()
		u.d.cond.Broadcast()
	})
	defer stop()
	start := time.Now()
	u.fresh = u.d.set.NewFileNum()
	for level := range manifest.NumLevels {
		for {
			if err := u.lookAt(level); err != nil {
				return err
			}
			more, err := u.step(level)
			if err != nil {
				return errors.Wrap(base.NoSpace(err), "sievedb: UpgradeFilters")
			}
			if !more {
				break
			}
			u.sumUp()
			if u.o.Progress != nil {
				u.o.Progress(u.report)
			}
			if err := u.rest(time.Since(start)); err != nil {
				return err
			}
		}
	}
	return nil
}

// rest waits until it is time for the bytes that were copied since the beginning. It does so
// between tables, so that none is claimed meanwhile.
func (u *upgrade) rest(since time.Duration) error {
	if u.o.BytesPerSecond == 0 {
		return nil
	}
	due := time.Duration(float64(u.report.Bytes) / float64(u.o.BytesPerSecond) * float64(time.Second))
	t := time.NewTimer(due - since)
	defer t.Stop()
	select {
	case <-t.C:
	case <-u.ctx.Done():
	case <-u.d.closing:
	}
	return u.interrupted()
}

// lookAt looks into the tables of a level that it has not seen yet.
func (u *upgrade) lookAt(level int) error {
	s := u.d.refState()
	defer s.version.Unref()
	for _, f := range s.version.Levels[level].Files {
		if err := u.interrupted(); err != nil {
			return err
		}
		if f.Num < u.fresh { // else those that writers add without end are upgraded without end
			u.look(level, f)
		}
	}
	return nil
}

func (u *upgrade) sumUp() {
	u.report.WastedReadsBefore, u.report.WastedReadsAfter = 0, 0
	for level, l := range u.levels {
		tables := l.tables
		if level == 0 {
			tables = min(tables, 1)
		}
		if tables > 0 {
			u.report.WastedReadsBefore += l.before / tables
			u.report.WastedReadsAfter += l.after / tables
		}
	}
}

// step upgrades what can be in one edit of a level; more is false where nothing is left.
func (u *upgrade) step(level int) (more bool, err error) {
	var nums []uint64
	c, err := u.d.claim(u.ctx, func(v *manifest.Version) (*manifest.Compaction, bool) {
		files, busy := u.choose(v, level)
		if len(files) == 0 || busy {
			return nil, busy
		}
		// Oldest first, which is what the order of numbers says in level 0. There no flush
		// is under way, so that none has taken a number yet that its table will come with later.
		nums = make([]uint64, len(files))
		for i := range nums {
			nums[len(nums)-1-i] = u.d.set.NewFileNum()
		}
		return &manifest.Compaction{Version: v, Level: level, OutputLevel: level, Inputs: files, Reason: "filters"}, false
	})
	if err != nil || c == nil {
		return false, err
	}
	err = u.replace(c, nums)
	if err != nil && stderrors.Is(err, ErrCorruption) {
		u.d.done(c, nil) // not set aside: compactions find out for themselves
		return true, nil
	}
	u.d.done(c, err)
	u.d.obsolete.remove(u.d)
	u.d.scheduleCompactions()
	return err == nil, err
}

// choose returns tables of a level that can be upgraded in one edit, in the level's order, or
// whether there are some but they are in use. It runs with d.mu held.
func (u *upgrade) choose(v *manifest.Version, level int) (files []*manifest.FileMeta, busy bool) {
	all := v.Levels[level].Files
	for _, f := range all {
		if f.Compacting && u.d.compactions == 0 && u.known[f] == tableStale { // set aside for its damage
			u.known[f] = tableDamaged
			u.damaged(u.d.parkedErr)
		}
	}
	if level == 0 {
		files = u.together(all)
		busy = len(files) > 0 && u.d.flushing
		for _, f := range files {
			busy = busy || f.Compacting
		}
		return files, busy
	}
	size := uint64(0)
	for _, f := range all {
		switch {
		case u.known[f] != tableStale:
		case f.Compacting:
			busy = true
		case len(files) == 0 || size+f.Size <= upgradeStep:
			files = append(files, f)
			size += f.Size
		}
	}
	return files, busy && len(files) == 0
}

// replace copies the inputs of c to tables of these numbers and puts them in their places.
func (u *upgrade) replace(c *manifest.Compaction, nums []uint64) error {
	edit := &manifest.Edit{}
	var written []*manifest.FileMeta
	syncs := newTableSyncs()
	abandon := func(err error) error {
		_ = syncs.wait() // err came first
		for _, f := range written {
			u.d.removeFile(u.d.path(base.FileTable, f.Num))
		}
		return err
	}
	for i, f := range c.Inputs {
		table, err := u.copyTable(c.Level, f, nums[i], syncs)
		if err != nil {
			if stderrors.Is(err, ErrCorruption) {
				u.known[f] = tableDamaged
				u.damaged(err)
			}
			return abandon(err)
		}
		written = append(written, table)
		edit.Deleted = append(edit.Deleted, manifest.DeletedFile{Level: c.Level, Num: f.Num})
		edit.Added = append(edit.Added, manifest.LevelFile{Level: c.Level, File: table})
	}
	if err := syncs.wait(); err != nil {
		return abandon(err)
	}
	if err := u.d.fs.SyncDir(u.d.dir); err != nil {
		return abandon(err)
	}
	if err := u.d.applyEdit(edit, written, nil); err != nil {
		return err
	}
	for _, f := range c.Inputs {
		u.upgraded(f)
	}
	for _, f := range written {
		u.known[f] = tableCurrent
	}
	return nil
}
