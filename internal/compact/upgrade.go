package compact

import (
	"cmp"
	"context"
	"time"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/errors"
	"github.com/sievedb/sievedb/internal/filterplan"
	"github.com/sievedb/sievedb/internal/manifest"
	"github.com/sievedb/sievedb/sstable"
)

// UpgradeOptions say how UpgradeFilters goes about it.
type UpgradeOptions struct {
	DryRun         bool
	BytesPerSecond int64               // read, on average; 0: no bound
	Progress       func(UpgradeReport) // nil: not called
}

// UpgradeReport is what UpgradeFilters did or, in a dry run, would do.
type UpgradeReport struct {
	Tables, Upgraded, Current, Damaged int
	// Bytes is what the upgraded tables took.
	Bytes                               uint64
	FilterBytesBefore, FilterBytesAfter uint64
	WastedReadsBefore, WastedReadsAfter float64
	Duration                            time.Duration
}

// UpgradeFilters gives each table the filters of policy, nil for Options.Table.Filter, without
// compacting anything: a table's data blocks are copied as they are stored, its keys are
// read in the same pass, and a new end with filters and index is written after them.
func (s *Scheduler) UpgradeFilters(ctx context.Context, policy filter.Policy, o UpgradeOptions) (UpgradeReport, error) {
	start := time.Now()
	u, err := s.newUpgrade(ctx, policy, o)
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
	s      *Scheduler
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

func (s *Scheduler) newUpgrade(ctx context.Context, policy filter.Policy, o UpgradeOptions) (*upgrade, error) {
	u := &upgrade{
		s: s, ctx: ctx, o: o, policy: policy, tables: s.o.Table,
		stepBytes: min(UpgradeStepTables*s.o.TableSize, upgradeStepBytes),
		known:     map[*manifest.FileMeta]tableState{}, made: map[madeOf][]madeFilter{},
		figures: map[*manifest.FileMeta]tableFigures{},
	}
	if policy == nil {
		u.policy = s.o.Table.Filter
	}
	if policy == nil && s.o.Plan.ByLevel() {
		u.bits = s.o.Plan.LevelBits()
	}
	switch {
	case s.closed.Load():
		return nil, base.ErrClosed
	case s.o.ReadOnly && !u.o.DryRun:
		return nil, base.ErrReadOnly
	case u.o.BytesPerSecond < 0:
		return nil, errors.Newf("sievedb: UpgradeFilters: %d bytes a second; want 0 for no bound, or more", u.o.BytesPerSecond)
	}
	read := map[string]bool{}
	for _, p := range s.o.ReadPolicies {
		read[p.Name()] = true
	}
	for _, p := range filter.Kinds(u.policy) {
		if !read[p.Name()] {
			return nil, errors.Newf("sievedb: UpgradeFilters: this store would not read filters of %q; open it with that policy as Options.Filters.Policy", p.Name())
		}
	}
	v := s.host.RefVersion()
	defer v.Unref()
	v.Files(func(int, *manifest.FileMeta) { u.report.Tables++ })
	return u, nil
}

// survey is a dry run.
func (u *upgrade) survey() error {
	v := u.s.host.RefVersion()
	defer v.Unref()
	for level := range manifest.NumLevels {
		files := v.Levels[level].Files
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
	if u.s.closed.Load() {
		return base.ErrClosed
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
	UpgradeStepTables = 16
	upgradeStepBytes  = 32 << 20
)

// run upgrades level by level. It begins at the top: compactions only move tables down.
func (u *upgrade) run() error {
	stop := context.AfterFunc(u.ctx, u.s.wake)
	defer stop()
	u.begun = time.Now()
	u.fresh = u.s.o.NewFileNum()
	for level := range manifest.NumLevels {
		if err := u.runLevel(level); err != nil {
			return err
		}
	}
	return nil
}

// runLevel upgrades the tables of a level step by step. While the copies of one step are put in
// their places, those of the next are made, unless that step may have to be done again, or
// the upgrade has to pause first.
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
	case <-u.s.closing:
	}
	return u.interrupted()
}

// lookAt looks into tables of a level that it has not seen yet, as many as a step may take; in
// level 0, of which one may take all, into all.
func (u *upgrade) lookAt(level int) error {
	v := u.s.host.RefVersion()
	defer v.Unref()
	stale := uint64(0)
	for _, f := range v.Levels[level].Files {
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
// whether there are some but they are in use. It runs with Scheduler.mu held.
func (u *upgrade) choose(v *manifest.Version, level int) (files []*manifest.FileMeta, busy bool) {
	all := v.Levels[level].Files
	for _, f := range all {
		if f.Compacting && len(u.s.running) == 0 && u.known[f] == tableStale { // set aside for its damage
			u.known[f] = tableDamaged
			u.damaged(f, u.s.parkedErr)
		}
	}
	if level == 0 {
		files = u.together(all)
		busy = len(files) > 0 && u.s.flushing
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
