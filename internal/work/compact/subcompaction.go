package compact

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/sievedb/sievedb/internal/base/errors"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/filterplan"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/disk/pick"
	"github.com/sievedb/sievedb/internal/disk/tables"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/sstable"
)

// A large compaction is divided by user keys into pieces (RocksDB: subcompactions). They are
// merged separately, each into its own tables, and applied as one version edit.
//
// Tuning.MaxConcurrent is the number of slots. A compaction uses one slot from its beginning, in which it merges its
// pieces one after another. A free slot is given first to a goroutine that waits in Claim, then to another compaction
// that is due, and then to a piece that has not begun. Pieces from level 0 come first, since writers wait for them.
// Such a piece frees its slot at its end.

// mergeJob is the merging of one compaction.
type mergeJob struct {
	s    *Scheduler
	ctx  context.Context // of the caller of Compact; it ends the merge
	c    *pick.Compaction
	done *progress
	bits filterplan.Bits
	// finishes says that the merge goes on while the Scheduler closes: it is automatic and small, and calls no filter.
	finishes  bool
	retention retention
	filter    jobFilter
	pieces    []mergePiece
	stopped   atomic.Bool   // a piece has failed, so others need not continue
	grown     atomic.Bool   // see logGrowth
	home      atomic.Uint64 // bytes of values that went home; see mostHome
	far       atomic.Uint64 // bytes of values read from value tables

	// Guarded by Scheduler.mu.
	next   int   // the first piece that has not begun
	helped int   // pieces that are being merged by other goroutines than the job's own
	err    error // of the piece that failed first
	left   error // why a value could not be read, which stays where it is
}

// newMergeJob returns a mergeJob without pieces that was not begun. The caller ends it after its
// result is installed or abandoned.
func (s *Scheduler) newMergeJob(ctx context.Context, c *pick.Compaction) *mergeJob {
	return &mergeJob{s: s, ctx: ctx, c: c, done: s.progressOf(c)}
}

// begin finds out what the pieces share.
func (j *mergeJob) begin() {
	s, c := j.s, j.c
	j.bits, j.retention.visible = s.o.Plan.CompactionBits(c), s.host.Snapshots()
	// Inputs are removed oldest first. So inputs left by a crash have nothing older than an
	// entry that got number 0. If the inputs' order is unknown, that is not certain.
	j.retention.holdsOldest = c.HoldsOldest() && s.inputsInOrder(c)
	j.beginFilter()
	j.finishes = j.ctx.Done() == nil && c.InputBytes() <= maxFinished && s.tuning.Load().Filter == nil
}

// maxFinished is the largest input of a compaction that Close waits for, in bytes: some milliseconds. Otherwise a
// program that opens the store for one write and closes it would leave one more table each time, and never compact
// them.
const maxFinished = 1 << 20

// end ends the job; see newMergeJob.
func (j *mergeJob) end() {
	if j.filter.end != nil {
		j.filter.end()
	}
}

// inputsInOrder reports whether inputs from level 0 are known to be in the order of their sequence numbers.
func (s *Scheduler) inputsInOrder(c *pick.Compaction) bool {
	if c.Level > 0 || version.InOrder(s.o.Cmp, c.Inputs) {
		return true
	}
	for _, f := range c.Inputs {
		s.o.Cache.LearnSeqs(f)
	}
	return version.InOrder(s.o.Cmp, c.Inputs)
}

// mergePiece is a range of user keys, [lower, upper), nil for no bound.
type mergePiece struct {
	lower, upper []byte
	out          *tables.Writer // nil until the piece begins
}

// mergeTables merges the inputs to new tables. It adds them to edit and returns them, and the number of pieces. The
// caller has a slot.
func (j *mergeJob) mergeTables(edit *manifest.Edit) (files []*version.FileMeta, pieces int, err error) {
	splits, err := j.s.splitKeys(j.c)
	if err != nil {
		return nil, 0, err
	}
	j.begin()
	j.pieces = make([]mergePiece, len(splits)+1)
	for i, key := range splits {
		j.pieces[i].upper, j.pieces[i+1].lower = key, key
	}
	j.run()
	j.c.Left = j.left
	for i := range j.pieces {
		out := j.pieces[i].out
		switch {
		case j.err == nil:
			files = append(files, out.AddTo(edit, j.c.OutputLevel)...)
		case out != nil:
			out.Abandon()
		}
	}
	return files, len(j.pieces), j.err
}

// run merges all pieces, unless one fails. When it returns, no goroutine works on them, and
// j.err is nil if all are finished.
func (j *mergeJob) run() {
	s := j.s
	s.mu.Lock()
	s.jobs = append(s.jobs, j)
	for j.next < len(j.pieces) {
		p := j.takeLocked()
		s.scheduleLocked() // others may help
		s.mu.Unlock()
		err := s.o.Guard("a compaction", func() error { return j.mergeFiltered(p) })
		s.mu.Lock()
		j.endedLocked(err)
	}
	if j.helped == 0 {
		s.mu.Unlock()
		return
	}
	// Waiting is not merging, so another goroutine may use the slot meanwhile. It is counted
	// as used again for the version edit, even if all are in use, since that is no merge.
	s.slots.free()
	s.scheduleLocked()
	s.cond.Broadcast()
	for j.helped > 0 {
		s.cond.Wait()
	}
	s.slots.take()
	s.mu.Unlock()
}

// takeLocked returns the next piece. After the last one, the job needs no help.
func (j *mergeJob) takeLocked() *mergePiece {
	p := &j.pieces[j.next]
	if j.next++; j.next == len(j.pieces) {
		j.forgetLocked()
	}
	return p
}

func (j *mergeJob) forgetLocked() {
	j.s.jobs = slices.DeleteFunc(j.s.jobs, func(other *mergeJob) bool { return other == j })
}

// endedLocked handles the result of a piece.
func (j *mergeJob) endedLocked(err error) {
	if err == nil || j.err != nil {
		return
	}
	j.err = err
	j.stopped.Store(true)
	j.next = len(j.pieces)
	j.forgetLocked()
}

// helpLocked gives a free slot to a piece that has not begun, of which there is one at least.
func (s *Scheduler) helpLocked() {
	j := s.jobs[0]
	for _, other := range s.jobs {
		if other.c.Level < j.c.Level {
			j = other
		}
	}
	p := j.takeLocked()
	s.slots.take()
	j.helped++
	base.GoIn(&s.background, func() {
		err := ErrStopped
		defer func() { // also if the goroutine ends by runtime.Goexit
			s.mu.Lock()
			defer s.mu.Unlock()
			j.endedLocked(err)
			j.helped--
			s.slots.free()
			s.scheduleLocked()
			s.cond.Broadcast()
		}()
		err = s.o.Guard("a compaction", func() error { return j.mergeFiltered(p) })
	})
}

// errPieceEnds means that an entry is after the piece. ErrStopped means that another piece of
// the compaction has failed, or the copy of another table.
var (
	errPieceEnds = errors.Sentinel("sievedb: the piece of the compaction ends")
	ErrStopped   = errors.Sentinel("sievedb: another piece of the work has failed")
)

// merge merges the inputs within a piece to new tables. After an error p.out must be abandoned.
func (j *mergeJob) merge(p *mergePiece) error {
	s := j.s
	p.out = s.o.NewWriter(j.c.OutputLevel, j.bits)
	pace := pacer{s: s, ctx: j.ctx, out: p.out, job: j, began: time.Now()}
	it := s.compactionIter(j.c, p, &pace.read)
	defer it.Close()
	m := merger{s: s, cmp: s.o.Cmp.Compare, c: j.c, job: j, piece: p, out: p.out, cutter: j.c.NewOutputCutter()}
	defer m.values.lookup.Release()
	var err error
	twin := false // the entry is a twin of the previous one, which counts instead
	for ok := it.First(); ok; ok = it.Next() {
		if !twin {
			if err = m.entry(it.Key(), it.Value()); err != nil {
				break // and stay there, for CheckRemainder
			}
		}
		pace.read.BytesRead += uint64(m.far)
		pace.passed(len(it.Key()) + len(it.Value()) + m.far)
		if m.far > 0 {
			j.far.Add(uint64(m.far))
			m.far = 0
		}
		twin = it.TwinFollows()
	}
	switch {
	case err == nil:
		err = it.Err()
	case err == errPieceEnds:
		err = it.CheckRemainder()
	}
	if err == nil {
		_, err = p.out.Finish()
	}
	if err == nil {
		pace.step()
	}
	return err
}

// compactionIter returns an iterator that merges the parts of c's inputs within p. At both ends it may return entries
// outside of p, but only those of the same blocks. The tables of level 0 may overlap, so each is a run, except that
// those of a load, which are disjoint, are one. Each other level is one run. read counts what all of them read.
func (s *Scheduler) compactionIter(c *pick.Compaction, p *mergePiece, read *sstable.IterStats) *tables.MergingIter {
	runs := [][]*version.FileMeta{c.Inputs}
	if c.Level == 0 {
		runs = c.Version.DisjointRuns(c.Inputs)
	}
	it := new(tables.MergingIter)
	for i, files := range append(runs, c.Overlaps) {
		if files = p.tables(s.o.Cmp, files); len(files) == 0 {
			continue
		}
		o := sstable.IterOptions{NoFillCache: true, ReadAhead: compactionReadAhead, Upper: p.upper, Stats: read}
		if p.lower != nil && s.o.Cmp.Compare(base.UserKey(files[0].Smallest), p.lower) < 0 {
			o.Lower = p.lower
		}
		run := tables.NewLevelIter(s.o.Cache, s.o.Cmp, files, o)
		if i < len(runs) { // runs of equal rank: DisjointRuns sorts them by key, not by age
			it.AddNewest(run)
		} else {
			it.Add(run)
		}
	}
	it.Init(s.o.Cmp)
	it.SetStrict()
	return it
}

// tables returns those of files that overlap p, in their order.
func (p *mergePiece) tables(cmp *base.Comparer, files []*version.FileMeta) (meet []*version.FileMeta) {
	for _, f := range files {
		if (p.lower == nil || cmp.Compare(base.UserKey(f.Largest), p.lower) >= 0) &&
			(p.upper == nil || cmp.Compare(base.UserKey(f.Smallest), p.upper) < 0) {
			meet = append(meet, f)
		}
	}
	return meet
}
