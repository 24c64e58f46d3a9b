package compact

import (
	"cmp"
	"context"
	"time"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/filterplan"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/sstable"
)

// UpgradeOptions are the options of UpgradeFilters.
type UpgradeOptions struct {
	DryRun         bool
	BytesPerSecond int64               // bytes read, on average; 0 for no limit
	Progress       func(UpgradeReport) // called after each step, if not nil
}

// UpgradeReport is the result of UpgradeFilters or, in a dry run, the expected result.
type UpgradeReport struct {
	Tables, Upgraded, Current, Damaged int
	// Bytes is the total size of the upgraded tables before the upgrade.
	Bytes                               uint64
	FilterBytesBefore, FilterBytesAfter uint64
	WastedReadsBefore, WastedReadsAfter float64
	Duration                            time.Duration
}

// UpgradeFilters gives each table the filters of policy, or of Options.Table.Filter if policy is
// nil, without a compaction. It copies a table's data blocks as they are stored, reads its keys
// in the same pass, and then writes new filters and a new index.
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

// upgrade is a running UpgradeFilters.
type upgrade struct {
	s      *Scheduler
	ctx    context.Context
	o      UpgradeOptions
	policy filter.Policy
	bits   []filterplan.Bits // of each level, if they depend on the level
	tables sstable.WriterOptions
	begun  time.Time
	// stepBytes bounds the total size of a step's tables below level 0. A step with a single table may exceed it.
	stepBytes uint64
	fresh     uint64                           // tables from this number on are newer than the upgrade
	known     map[*version.FileMeta]tableState // of tables that were inspected
	figures   map[*version.FileMeta]tableFigures
	made      map[filterSpec][]filterEstimate
	levels    [version.NumLevels]levelRates
	report    UpgradeReport
	paced     uint64 // of report.Bytes: taken from the limit
	damage    error  // the first
	failed    error  // an I/O error while inspecting a table
}

type tableState uint8

const (
	tableStale tableState = iota + 1
	tableCurrent
	tableDamaged
)

// filterSpec is the bits per key, if they depend on the level, and a number of keys.
type filterSpec struct{ bits, keys uint64 }

// filterEstimate is the expected filter of one kind of the policy.
type filterEstimate struct {
	name  string
	bytes int
	fits  func(filter []byte) bool // whether this is a filter as expected; nil if any of the name is
	rate  float64
}

// tableFigures are the sizes of a table's filters and their expected false-positive rates,
// before and after the upgrade.
type tableFigures struct {
	level                   int
	bytesBefore, bytesAfter uint64
	rateBefore, rateAfter   float64
}

// copyFigures are the number of keys in a copy's filters, 0 without filters, and their bytes.
type copyFigures struct{ keys, filterBytes uint64 }

// levelRates are the number of a level's tables and the sums of their false-positive rates.
type levelRates struct{ tables, before, after float64 }

// add adds the rates of n tables with these figures. With a negative n it subtracts them.
func (l *levelRates) add(f tableFigures, n float64) {
	l.tables += n
	l.before += n * f.rateBefore
	l.after += n * f.rateAfter
}

func (s *Scheduler) newUpgrade(ctx context.Context, policy filter.Policy, o UpgradeOptions) (*upgrade, error) {
	t := s.tuning.Load()
	u := &upgrade{
		s: s, ctx: ctx, o: o, policy: policy, tables: t.Table,
		stepBytes: min(upgradeStepTables*cmp.Or(t.TableSize, version.LeastTableSize), upgradeStepBytes),
		known:     map[*version.FileMeta]tableState{}, made: map[filterSpec][]filterEstimate{},
		figures: map[*version.FileMeta]tableFigures{},
	}
	if policy == nil {
		u.policy = t.Table.Filter
	}
	if policy == nil && s.o.Plan.ByLevel() {
		u.bits = s.o.Plan.LevelBits()
	}
	switch {
	case s.state.isClosed():
		return nil, base.ErrClosed
	case s.o.ReadOnly && !u.o.DryRun:
		return nil, base.ErrReadOnly
	case u.o.BytesPerSecond < 0:
		return nil, errors.Newf("sievedb: UpgradeFilters: the limit is %d bytes per second; "+
			"want 0 for no limit, or more", u.o.BytesPerSecond)
	}
	read := map[string]bool{}
	for _, p := range s.o.ReadPolicies {
		read[p.Name()] = true
	}
	for _, p := range filter.Kinds(u.policy) {
		if !read[p.Name()] {
			return nil, errors.Newf("sievedb: UpgradeFilters: this store would not read filters of %q; "+
				"open it with that policy as Options.Filters.Policy", p.Name())
		}
	}
	v := s.host.RefVersion()
	defer v.Unref()
	v.Files(func(int, *version.FileMeta) { u.report.Tables++ })
	return u, nil
}

// survey is a dry run.
func (u *upgrade) survey() error {
	v := u.s.host.RefVersion()
	defer v.Unref()
	for level := range version.NumLevels {
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

// upgraded counts a table that has been upgraded or, in a dry run, would be.
func (u *upgrade) upgraded(f *version.FileMeta) {
	if u.known[f] == tableCurrent {
		u.report.Current-- // it was rewritten only because of other tables
	}
	u.report.Upgraded++
	u.report.Bytes += f.Size
	u.report.FilterBytesBefore += u.figures[f].bytesBefore
	u.report.FilterBytesAfter += u.figures[f].bytesAfter
}

// together returns the tables of level 0 that must be upgraded in one edit. Level 0 is ordered by table numbers, so if
// a table gets a new number, all newer ones need one as well. Tables older than a damaged one must keep their numbers.
func (u *upgrade) together(all []*version.FileMeta) (files []*version.FileMeta) {
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
	if u.s.state.isClosed() {
		return base.ErrClosed
	}
	if u.failed != nil {
		return u.failed
	}
	return u.ctx.Err()
}

// These bound the tables, of the usual size, and the bytes of a step, which is one edit. Each
// step syncs the MANIFEST and the directory, and compactions cannot use its tables meanwhile.
// Small steps also let later tables reuse the page cache of tables already replaced.
const (
	upgradeStepTables = 16
	upgradeStepBytes  = 32 << 20
)

// run upgrades level by level, from the top, since compactions only move tables down.
func (u *upgrade) run() error {
	stop := context.AfterFunc(u.ctx, u.s.wake)
	defer stop()
	u.begun = time.Now()
	u.fresh = u.s.o.NewFileNum()
	for level := range version.NumLevels {
		if err := u.runLevel(level); err != nil {
			return err
		}
	}
	return nil
}

// runLevel upgrades the tables of a level step by step.
func (u *upgrade) runLevel(level int) error {
	for {
		if err := u.lookAt(level); err != nil {
			return err
		}
		found := u.report.Damaged
		step, err := u.begin(level)
		switch {
		case err != nil:
			return err
		case step == nil && u.report.Damaged > found:
			continue // all that lookAt has found was set aside, and others may follow
		case step == nil:
			return nil
		}
		if err := step.run(); err != nil {
			return err
		}
		if err := u.limitRate(time.Since(u.begun)); err != nil {
			return err
		}
	}
}

// limitRate waits until the average rate since the beginning is within BytesPerSecond, and that of all background work
// within Tuning.MaxBytesPerSecond. It waits between steps, while no table is claimed.
func (u *upgrade) limitRate(since time.Duration) error {
	u.s.pace(u.ctx, 2*(u.report.Bytes-u.paced)) // read and written
	u.paced = u.report.Bytes
	if u.o.BytesPerSecond == 0 {
		return nil
	}
	due := time.Duration(float64(u.report.Bytes) / float64(u.o.BytesPerSecond) * float64(time.Second))
	t := time.NewTimer(due - since)
	defer t.Stop()
	select {
	case <-t.C:
	case <-u.ctx.Done():
	case <-u.s.state.closing:
	}
	return u.interrupted()
}

// lookAt inspects new tables of a level, as many as a step may have. In level 0, where a step
// may have all tables, it inspects all.
func (u *upgrade) lookAt(level int) error {
	v := u.s.host.RefVersion()
	defer v.Unref()
	stale := uint64(0)
	for _, f := range v.Levels[level].Files {
		if err := u.interrupted(); err != nil {
			return err
		}
		if f.Num < u.fresh && u.look(level, f) == tableStale { // newer tables may appear forever
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

// choose returns tables of a level that can be upgraded in one edit, in the level's order. If
// all of them are in use, busy is true. The caller holds Scheduler.mu.
func (u *upgrade) choose(v *version.Version, level int) (files []*version.FileMeta, busy bool) {
	all := v.Levels[level].Files
	for _, f := range all {
		if f.Compacting && !u.s.work.claims() && u.known[f] == tableStale { // set aside because of damage
			u.known[f] = tableDamaged
			u.damaged(f, u.s.outcome.parkedErr)
		}
	}
	if level == 0 {
		files = u.together(all)
		busy = len(files) > 0 && u.s.work.flushing
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
