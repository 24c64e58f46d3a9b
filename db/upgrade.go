package db

import (
	"cmp"
	"context"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/filterplan"
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
	// absent key was and is expected to make in vain, by the filters' mathematics,
	// with nothing cached and damaged tables left out: for each level the mean rate of false positives of its tables; in
	// level 0, where a lookup may ask each, their sum. A table without a filter counts for one.
	WastedReadsBefore, WastedReadsAfter float64
	Duration                            time.Duration
}

// UpgradeFilters gives each table the filters of policy, nil for Options.Filter, without compacting
// anything: a table's data blocks are copied as they are stored, its keys are read in the same
// pass, and a new end with filters and index is written behind them. The new table takes the
// old one's place in one edit of the MANIFEST, on the same level; only those of level 0 change
// places together. As many tables are copied at once as there are processors, two at least, and
// together they count as one merge (Options.MaxConcurrentCompactions). Lookups, writes and compactions go on.
//
// Tables that have these filters already are left alone, so that a call that was
// interrupted, by its context or a crash, is taken up by the next one. What was upgraded until then stays so.
// Where policy is nil and Options has a budget for filters, or the default filter, each table
// gets the bits of its level.
//
// Each table gets the filters of Options.RangeFilters too, unless it has one of each, with its bits;
// the report leaves their bytes out.
//
// New tables are always written with Options.Filter: open the store with the policy that
// is to stay. The policy must be one that the store reads: Options.Filter or one of ours.
//
// It needs free space for 64 MiB of tables, two tables that are larger, or those of level 0. Tables that
// are damaged are passed over and counted, and the error, which comes at the end, wraps
// ErrCorruption then. o may be nil.
func (d *DB) UpgradeFilters(ctx context.Context, policy filter.Policy, o *UpgradeOptions) (UpgradeReport, error) {
	if d == nil || d.closed.Load() {
		return UpgradeReport{}, ErrClosed
	}
	if ctx == nil {
		return UpgradeReport{}, errNilContext("UpgradeFilters")
	}
	if (o == nil || !o.DryRun) && d.listenerCalls.inThisGoroutine() {
		return UpgradeReport{}, ErrInListener
	}
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
	u.sumUp()
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
	bits   []filterplan.Bits // of each level, if they depend on it
	tables sstable.WriterOptions
	begun  time.Time
	// stepBytes bounds the tables of a step below level 0, but for a single one.
	stepBytes uint64
	fresh     uint64                            // tables of this number and above came since
	known     map[*manifest.FileMeta]tableState // of tables that were looked into
	figures   map[*manifest.FileMeta]tableFigures
	made      map[madeOf][]madeFilter
	levels    [manifest.NumLevels]levelRates
	report    UpgradeReport
	damage    error // the first
	failed    error // of the system, looking into a table
}

type tableState uint8

const (
	tableStale tableState = iota + 1
	tableCurrent
	tableDamaged
	tableChosen // of a step under way, stale before
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

// tableFigures are what the filters of a table take, and the rates of false positives to
// expect of them, before it is upgraded and afterwards.
type tableFigures struct {
	level                   int
	bytesBefore, bytesAfter uint64
	rateBefore, rateAfter   float64
}

// madeTable is what a copy has: keys in its filters, 0 if it has none, and their bytes.
type madeTable struct{ keys, filterBytes uint64 }

// levelRates sums up the rates of false positives of a level's tables.
type levelRates struct{ tables, before, after float64 }

// add adds the rates of n tables that have such figures, or takes them away.
func (l *levelRates) add(f tableFigures, n float64) {
	l.tables += n
	l.before += n * f.rateBefore
	l.after += n * f.rateAfter
}

func (d *DB) newUpgrade(ctx context.Context, policy filter.Policy, o *UpgradeOptions) (*upgrade, error) {
	u := &upgrade{
		d: d, ctx: ctx, policy: policy, tables: d.opts.tableOptions(),
		stepBytes: min(upgradeStepTables*uint64(d.opts.TableSize), upgradeStepBytes),
		known:     map[*manifest.FileMeta]tableState{}, made: map[madeOf][]madeFilter{},
		figures: map[*manifest.FileMeta]tableFigures{},
	}
	if o != nil {
		u.o = *o
	}
	if policy == nil {
		u.policy = d.opts.Filter
	}
	if policy == nil && d.plan.ByLevel() {
		u.bits = d.plan.LevelBits()
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
	return nil
}

// upgraded counts a table that has been, or would be.
func (u *upgrade) upgraded(f *manifest.FileMeta) {
	if u.known[f] == tableCurrent {
		u.report.Current-- // it only went along
	}
	u.report.Upgraded++
	u.report.Bytes += f.Size
	u.report.FilterBytesBefore += u.figures[f].bytesBefore
	u.report.FilterBytesAfter += u.figures[f].bytesAfter
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

// A step upgrades about so many tables as compactions write them, and bytes, in one edit: each
// costs a sync of the MANIFEST and of the directory, and takes its tables from compactions
// meanwhile. The memory of the system that the old tables took serves the next ones.
const (
	upgradeStepTables = 16
	upgradeStepBytes  = 32 << 20
)

// run upgrades level by level. It begins at the top: compactions only move tables down.
func (u *upgrade) run() error {
	stop := context.AfterFunc(u.ctx, func() {
		u.d.mu.Lock()
		defer u.d.mu.Unlock()
		u.d.cond.Broadcast()
	})
	defer stop()
	u.begun = time.Now()
	u.fresh = u.d.set.NewFileNum()
	for level := range manifest.NumLevels {
		if err := u.runLevel(level); err != nil {
			return err
		}
	}
	return nil
}

// runLevel upgrades the tables of a level step by step. While the copies of one step are put in
// their places, those of the next are made, unless that step may have to be done again, or
// the upgrade shall not go on at once.
func (u *upgrade) runLevel(level int) error {
	var last *upgradeStep // copied
	for {
		err := u.lookAt(level)
		var next *upgradeStep
		if err == nil {
			next, err = u.begin(level)
		}
		err = cmp.Or(err, u.end(last))
		last = next
		if next == nil {
			return err
		}
		if err == nil {
			err = u.lookAt(level) // for the step behind it, meanwhile
		}
		if err != nil {
			next.failed.Store(true)
		}
		<-next.copied
		if err != nil || level == 0 || u.o.BytesPerSecond > 0 {
			err = cmp.Or(err, u.end(next))
			last = nil
		}
		if err == nil {
			err = u.rest(time.Since(u.begun))
		}
		if err != nil {
			return cmp.Or(err, u.end(last))
		}
	}
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

// lookAt looks into tables of a level that it has not seen yet, as many as a step may take; in
// level 0, of which one may take all, into all.
func (u *upgrade) lookAt(level int) error {
	s := u.d.refState()
	defer s.version.Unref()
	stale := uint64(0)
	for _, f := range s.version.Levels[level].Files {
		if err := u.interrupted(); err != nil {
			return err
		}
		if f.Num < u.fresh && u.look(level, f) == tableStale { // newer ones come without end
			stale += f.Size
		}
		if level > 0 && stale > u.stepBytes {
			break
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

// choose returns tables of a level that can be upgraded in one edit, in the level's order, or
// whether there are some but they are in use. It runs with d.mu held.
func (u *upgrade) choose(v *manifest.Version, level int) (files []*manifest.FileMeta, busy bool) {
	all := v.Levels[level].Files
	for _, f := range all {
		if f.Compacting && u.d.compactions == 0 && u.known[f] == tableStale { // set aside for its damage
			u.known[f] = tableDamaged
			u.damaged(f, u.d.parkedErr)
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
		case len(files) == 0 || size+f.Size <= u.stepBytes:
			files = append(files, f)
			size += f.Size
		}
	}
	return files, busy && len(files) == 0
}
