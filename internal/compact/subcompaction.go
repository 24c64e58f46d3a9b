package compact

import (
	"slices"
	"sync/atomic"

	"github.com/sievedb/sievedb/internal/errors"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/filterplan"
	"github.com/sievedb/sievedb/internal/manifest"
	"github.com/sievedb/sievedb/internal/tables"
	"github.com/sievedb/sievedb/sstable"
)

// A large compaction is divided by user keys into pieces (RocksDB: subcompactions),
// which are merged on their own, each into tables of its own, and become one version
// edit together.
//
// Options.MaxConcurrent is a number of slots. A compaction takes one when it
// begins, and goes through its pieces with it. A slot that is free is given to whoever
// waits in claim first, then to another compaction that is due, and then to a piece
// that nobody has begun, of level 0 first, since that is what writers wait for. A
// piece that was given a slot returns it at its end.

// mergeJob is the merging of one compaction.
type mergeJob struct {
	s       *Scheduler
	c       *manifest.Compaction
	bits    filterplan.Bits
	visible []uint64 // sequence numbers that readers ask for, ascending
	oldest  bool     // entries may get sequence number 0
	pieces  []mergePiece
	stopped atomic.Bool // a piece has failed; no other need go on

	// Guarded by Scheduler.mu.
	next   int   // the first piece that nobody has begun
	helped int   // pieces that are being merged beside the job's own goroutine
	err    error // of the piece that failed first
}

// newMergeJob returns one without pieces.
func (s *Scheduler) newMergeJob(c *manifest.Compaction) *mergeJob {
	return &mergeJob{
		s: s, c: c, bits: s.o.Plan.CompactionBits(c),
		visible: s.host.Snapshots(),
		// Inputs are removed oldest first, so that those that a crash leaves hold nothing
		// older than an entry that got number 0. Of inputs in no order that is not known.
		oldest: c.HoldsOldest() && s.inputsInOrder(c),
	}
}

// inputsInOrder reports whether inputs from level 0 are known to be in the order of their
// sequence numbers.
func (s *Scheduler) inputsInOrder(c *manifest.Compaction) bool {
	if c.Level > 0 || manifest.InOrder(s.o.Cmp, c.Inputs) {
		return true
	}
	for _, f := range c.Inputs {
		s.o.Cache.LearnSeqs(f)
	}
	return manifest.InOrder(s.o.Cmp, c.Inputs)
}

// mergePiece is a range of user keys, from lower on to before upper, nil for no bound.
type mergePiece struct {
	lower, upper []byte
	out          *tables.Writer // nil until it is begun
}

// MergeTables writes what remains of the inputs of c to new tables, and returns them in
// order, and in how many pieces it was done. The caller has a slot.
func (s *Scheduler) MergeTables(c *manifest.Compaction) (files []*manifest.FileMeta, pieces int, err error) {
	splits, err := s.SplitKeys(c)
	if err != nil {
		return nil, 0, err
	}
	j := s.newMergeJob(c)
	j.pieces = make([]mergePiece, len(splits)+1)
	for i, key := range splits {
		j.pieces[i].upper, j.pieces[i+1].lower = key, key
	}
	j.run()
	for i := range j.pieces {
		out := j.pieces[i].out
		switch {
		case j.err == nil:
			files = append(files, out.Files...)
		case out != nil:
			out.Abandon()
		}
	}
	return files, len(j.pieces), j.err
}

// run merges all pieces, or as many as it takes for one to fail. When it returns, nobody
// is at any of them, and those that were begun are finished if j.err is nil.
func (j *mergeJob) run() {
	s := j.s
	s.mu.Lock()
	s.jobs = append(s.jobs, j)
	for j.next < len(j.pieces) {
		p := j.takeLocked()
		s.scheduleLocked() // others may help
		s.mu.Unlock()
		err := s.o.Guard("a compaction", func() error { return j.merge(p) })
		s.mu.Lock()
		j.endedLocked(err)
	}
	if j.helped == 0 {
		s.mu.Unlock()
		return
	}
	// To wait is no merge: somebody else may have the slot. It is taken again for the
	// version edit, which is none either, so that one slot may have two owners then.
	s.slots--
	s.scheduleLocked()
	s.cond.Broadcast()
	for j.helped > 0 {
		s.cond.Wait()
	}
	s.slots++
	s.mu.Unlock()
}

// takeLocked takes the next piece. The last one taken, the job needs no help.
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

// endedLocked takes the outcome of a piece.
func (j *mergeJob) endedLocked(err error) {
	if err == nil || j.err != nil {
		return
	}
	j.err = err
	j.stopped.Store(true)
	j.next = len(j.pieces)
	j.forgetLocked()
}

// helpLocked gives a slot that is free to a piece that nobody has begun, and reports
// whether there was one.
func (s *Scheduler) helpLocked() bool {
	if len(s.jobs) == 0 {
		return false
	}
	j := s.jobs[0]
	for _, other := range s.jobs {
		if other.c.Level < j.c.Level {
			j = other
		}
	}
	p := j.takeLocked()
	s.slots++
	j.helped++
	s.background.Add(1)
	go func() {
		defer s.background.Done()
		err := ErrStopped
		defer func() { // also if the goroutine ends by runtime.Goexit
			s.mu.Lock()
			defer s.mu.Unlock()
			j.endedLocked(err)
			j.helped--
			s.slots--
			s.scheduleLocked()
			s.cond.Broadcast()
		}()
		err = s.o.Guard("a compaction", func() error { return j.merge(p) })
	}()
	return true
}

// errPieceEnds says that an entry is behind the piece; ErrStopped that another piece of
// the compaction has failed, or the copy of another table.
var (
	errPieceEnds = errors.Sentinel("sievedb: the piece of the compaction ends")
	ErrStopped   = errors.Sentinel("sievedb: another piece of the work has failed")
)

// MergePiece writes what remains of the inputs of c for user keys from lower on and below
// upper, nil for no bound, to new tables. The caller has claimed c, and abandons or
// installs the tables, after an error too.
func (s *Scheduler) MergePiece(c *manifest.Compaction, lower, upper []byte) (*tables.Writer, error) {
	p := mergePiece{lower: lower, upper: upper}
	err := s.newMergeJob(c).merge(&p)
	return p.out, err
}

// merge writes what remains of the inputs within a piece to new tables. After an error
// some are left, for abandon.
func (j *mergeJob) merge(p *mergePiece) error {
	s := j.s
	p.out = s.o.NewWriter(j.bits)
	it := s.compactionIter(j.c, p)
	defer it.Close()
	m := merger{s: s, c: j.c, job: j, piece: p, out: p.out, cutter: j.c.NewOutputCutter()}
	var err error
	twin := false // of the entry before, which is the one that counts
	for ok := it.First(); ok; ok = it.Next() {
		if !twin {
			if err = m.entry(it.Key(), it.Value()); err != nil {
				break // and stay there: checkRest is about what follows
			}
		}
		twin = it.TwinFollows()
	}
	switch {
	case err == nil:
		err = it.Err()
	case err == errPieceEnds:
		err = it.CheckRest()
	}
	if err == nil {
		_, err = p.out.Finish()
	}
	return err
}

// compactionIter merges the inputs of c as far as they meet p; what it shows outside of
// p, at either end, is no more than there is in the blocks at hand. Level 0 overlaps
// itself, so it is several runs: one for each of its tables, but for those of a load,
// which do not meet. Other levels are one run each.
func (s *Scheduler) compactionIter(c *manifest.Compaction, p *mergePiece) *tables.MergingIter {
	runs := [][]*manifest.FileMeta{c.Inputs}
	if c.Level == 0 {
		runs = c.Version.DisjointRuns(c.Inputs)
	}
	it := new(tables.MergingIter)
	for i, files := range append(runs, c.Overlaps) {
		if files = p.tables(s.o.Cmp, files); len(files) == 0 {
			continue
		}
		o := sstable.IterOptions{NoFillCache: true, ReadAhead: compactionReadAhead, Upper: p.upper}
		if p.lower != nil && s.o.Cmp.Compare(base.UserKey(files[0].Smallest), p.lower) < 0 {
			o.Lower = p.lower
		}
		run := tables.NewLevelIter(s.o.Cache, s.o.Cmp, files, o)
		if i < len(runs) { // as new as the others: DisjointRuns sorts by keys
			it.AddNewest(run)
		} else {
			it.Add(run)
		}
	}
	it.Init(s.o.Cmp)
	it.SetStrict()
	return it
}

// tables returns those of some tables that meet p, in their order.
func (p *mergePiece) tables(cmp *base.Comparer, files []*manifest.FileMeta) (meet []*manifest.FileMeta) {
	for _, f := range files {
		if (p.lower == nil || cmp.Compare(base.UserKey(f.Largest), p.lower) >= 0) &&
			(p.upper == nil || cmp.Compare(base.UserKey(f.Smallest), p.upper) < 0) {
			meet = append(meet, f)
		}
	}
	return meet
}
