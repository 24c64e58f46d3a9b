package db

import (
	"context"
	stderrors "errors"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/manifest"
	"github.com/sievedb/sievedb/internal/tables"
)

// compactionReadAhead is how much of a table a compaction reads at once, in
// bytes: enough that the disk's latency hardly counts.
const compactionReadAhead = 256 << 10

// pickOptions is what a choice of a compaction goes by. d.mu is held.
func (d *DB) pickOptions() manifest.PickOptions {
	return manifest.PickOptions{
		L0Trigger:    d.opts.L0CompactionTrigger,
		MaxLevelBase: uint64(d.opts.MaxLevelBase),
		TableSize:    uint64(d.opts.TableSize),
		OldestReader: d.snapshots.oldest(&d.visibleSeq),
		Running:      d.running,
	}
}

// scheduleCompactions starts what is due and allowed.
func (d *DB) scheduleCompactions() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.scheduleCompactionsLocked()
}

// scheduleCompactionsLocked gives slots that are free to compactions that are due, and
// what is left of them to pieces of those that run.
func (d *DB) scheduleCompactionsLocked() {
	if d.opts.ReadOnly || d.resting > 0 || d.placing {
		return
	}
	for d.slots+d.claimers < d.opts.MaxConcurrentCompactions && !d.closed.Load() && d.writeErr() == nil {
		if c := d.pickLocked(); c != nil {
			d.startLocked(c)
			d.background.Add(1)
			go d.compactInBackground(c)
		} else if !d.helpLocked() {
			return
		}
	}
}

// startLocked claims the inputs of c and a slot, and pins its version, which is the
// present one. The store is open, and Close waits until done is called.
func (d *DB) startLocked(c *manifest.Compaction) {
	d.background.Add(1)
	if !c.Version.TryRef() {
		panic("db: the version of the present read state was given up")
	}
	for _, f := range c.AllInputs() {
		f.Compacting = true
	}
	d.compactions++
	d.slots++
	d.running = append(d.running, c)
}

// done gives back what startLocked took, and removes the files that nobody needs any
// more. The inputs of a compaction that met corruption stay claimed: trying again would
// fail again (basho/eleveldb issue 23), and reads of other keys go on.
func (d *DB) done(c *manifest.Compaction, err error) {
	defer d.background.Done()
	parked := stderrors.Is(err, ErrCorruption)
	d.mu.Lock()
	for _, f := range c.AllInputs() {
		f.Compacting = parked
	}
	if parked {
		d.parkedErr = err
		d.parkedTables += len(c.AllInputs())
	}
	d.compactions--
	d.slots--
	d.running = slices.DeleteFunc(d.running, func(r *manifest.Compaction) bool { return r == c })
	d.cond.Broadcast()
	d.mu.Unlock()
	c.Version.Unref()
	d.obsolete.Remove()
}

func (d *DB) compactInBackground(c *manifest.Compaction) {
	defer d.background.Done()
	_ = d.guard("a compaction", func() error { d.compactPicked(c); return nil })
}

// compactPicked is the work of compactInBackground.
func (d *DB) compactPicked(c *manifest.Compaction) {
	err := d.compact(c)
	wait := d.beginRest(err) // before a flush can pick the same inputs again
	d.done(c, err)
	if err == ErrClosed {
		return
	}
	d.noteBackground(&d.compactionErr, err)
	if wait > 0 {
		if !d.pause(wait) {
			return
		}
		d.mu.Lock()
		d.resting--
		d.mu.Unlock()
	}
	d.scheduleCompactions()
}

// beginRest takes the outcome of a background compaction. After a failure it
// returns how long the background shall start none; the caller ends that. Inputs
// that are corrupt stay claimed, so that there the next choice is another one and
// nothing need wait.
func (d *DB) beginRest(err error) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case err == nil && d.resting == 0:
		d.compactionDelay = compactionBackoff{}
		return 0
	case err == nil || err == ErrClosed || stderrors.Is(err, ErrCorruption):
		return 0
	}
	if d.resting++; d.resting > 1 { // of those that fail together, one counts
		return d.compactionDelay.wait
	}
	return d.compactionDelay.next(err)
}

// compact runs c and installs its outcome. A panic is returned as an error, since c has to
// be given up in order.
func (d *DB) compact(c *manifest.Compaction) (err error) {
	returned := false
	defer func() {
		if !returned { // the goroutine ends (runtime.Goexit), and with it this function's callers
			d.done(c, errStopped)
		}
	}()
	err = d.guard("a compaction", func() error { return d.compactAndTell(c) })
	returned = true
	return err
}

func (d *DB) compactAndTell(c *manifest.Compaction) error {
	info := CompactionInfo{
		Reason: c.Reason, InputLevel: c.Level, OutputLevel: c.OutputLevel,
		InputTables: len(c.Inputs) + len(c.Overlaps), TrivialMove: c.TrivialMove(),
	}
	tell(d, d.opts.EventListener.CompactionBegin, info)
	start := time.Now()
	err := base.NoSpace(d.runCompaction(c, &info))
	info.Duration, info.Err = time.Since(start), err
	tell(d, d.opts.EventListener.CompactionEnd, info)
	if err == nil {
		d.opts.Logger.Info("compacted", "from", c.Level, "to", c.OutputLevel, "inputs", info.InputTables,
			"outputs", info.OutputTables, "read", info.BytesRead, "written", info.BytesWritten, "moved", info.TrivialMove, "pieces", info.Subcompactions, "took", info.Duration)
	}
	return err
}

func (d *DB) runCompaction(c *manifest.Compaction, info *CompactionInfo) error {
	edit := &manifest.Edit{}
	for _, f := range c.Inputs {
		edit.Deleted = append(edit.Deleted, manifest.DeletedFile{Level: c.Level, Num: f.Num})
	}
	for _, f := range c.Overlaps {
		edit.Deleted = append(edit.Deleted, manifest.DeletedFile{Level: c.OutputLevel, Num: f.Num})
	}
	if info.TrivialMove {
		f := c.Inputs[0]
		edit.Added = []manifest.LevelFile{{Level: c.OutputLevel, File: f}}
		info.OutputTables = 1
		if err := d.applyEdit(edit, nil, nil); err != nil {
			return err
		}
		d.counters.trivialMoves.Add(1)
		return nil
	}
	files, pieces, err := d.mergeTables(c)
	if err != nil {
		if err == ErrClosed {
			return err
		}
		return errors.Wrapf(err, "sievedb: compacting level %d into level %d", c.Level, c.OutputLevel)
	}
	for _, f := range files {
		edit.Added = append(edit.Added, manifest.LevelFile{Level: c.OutputLevel, File: f})
		info.BytesWritten += f.Size
	}
	info.BytesRead, info.OutputTables, info.Subcompactions = c.InputBytes(), len(files), pieces
	if err := d.applyEdit(edit, files, nil); err != nil {
		return err
	}
	d.counters.compactions.Add(1)
	d.counters.subcompactions.Add(uint64(pieces))
	d.counters.compactionBytesRead.Add(info.BytesRead)
	d.counters.compactionBytesWrit.Add(info.BytesWritten)
	return nil
}

// merger decides for each entry of a compaction whether anybody can still see
// it, and writes those.
type merger struct {
	d      *DB
	c      *manifest.Compaction
	job    *mergeJob
	piece  *mergePiece
	begun  bool // it came to an entry of the piece, behind those that stand before it in the blocks read
	out    *tables.Writer
	cutter *manifest.OutputCutter
	below  [manifest.NumLevels]int
	count  int

	ikey    []byte // of the entry before, nil before the first
	stratum int    // see below; of the entry before
	zeros   zeroSeqs
}

// entry takes the next entry of the merged order.
//
// The sequence numbers that readers ask for cut history into strata: stratum i
// holds the entries that job.visible[i] shows and visible[i-1] does not. Of the
// entries of one key within one stratum only the newest can be seen.
func (m *merger) entry(ikey, value []byte) error {
	if m.count++; m.count%1024 == 0 {
		switch {
		case m.d.closed.Load():
			return ErrClosed
		case m.job.stopped.Load():
			return errStopped
		}
	}
	if !base.ValidInternalKey(ikey) {
		return base.Corruptf("table", -1, "a key of %d bytes is no internal key", len(ikey))
	}
	user, trailer := base.UserKey(ikey), base.Trailer(ikey)
	order := -1 // of the entry before and this one, by their user keys
	if m.ikey != nil {
		order = m.d.cmp.Compare(base.UserKey(m.ikey), user)
	}
	if order > 0 || order == 0 && base.Trailer(m.ikey) <= trailer {
		return base.Corruptf("table", -1, "the keys of the tables to compact do not ascend, want them to: one of %s is damaged; Check tells which", m.inputs())
	}
	newKey := order < 0
	m.ikey = append(m.ikey[:0], ikey...)
	if m.piece.upper != nil && m.d.cmp.Compare(user, m.piece.upper) >= 0 {
		return errPieceEnds
	}
	if !m.begun {
		if m.piece.lower != nil && m.d.cmp.Compare(user, m.piece.lower) < 0 {
			return nil
		}
		m.begun = true
	}
	seq, kind := base.SplitTrailer(trailer)
	stratum := 0
	if m.job.visible[0] < seq { // seldom
		stratum = sort.Search(len(m.job.visible), func(i int) bool { return m.job.visible[i] >= seq })
	}
	shadowed := !newKey && stratum == m.stratum
	m.stratum = stratum
	if shadowed {
		return nil
	}
	if kind == base.KindDelete && stratum == 0 && !m.c.HasKeyBelow(user, &m.below) {
		// Everybody sees the deletion and there is nothing left for it to hide: the
		// key's older entries are in this stratum too.
		return nil
	}
	cut := m.cutter.ShouldCut(ikey, m.out.Open()) ||
		m.out.Open() && m.out.Size() >= uint64(m.d.opts.TableSize)
	if cut && newKey && m.out.Open() { // never between the versions of one key
		if err := m.out.EndTable(); err != nil {
			return err
		}
	}
	if m.job.oldest && kind == base.KindSet && stratum == 0 || seq == 0 {
		return m.addOldest(user, seq, kind, value)
	}
	return m.out.Add(ikey, value)
}

// inputs names the tables that are merged.
func (m *merger) inputs() string {
	var names []string
	for _, f := range m.c.AllInputs() {
		names = append(names, f.Name())
	}
	return strings.Join(names, ", ")
}

// manualStep bounds the inputs of one step of a manual compaction, in bytes, so
// that the space which it needs meanwhile stays small against the database.
const manualStep = 64 << 20

// Compact merges all tables that may hold keys from start to limit, both
// inclusive, nil for no bound, so that deleted and shadowed entries there give
// their space back (unless a snapshot needs them) and every table is written
// with the present options. What is written meanwhile it need not take along. It
// returns when that is done, or when ctx is; what was merged until then stays merged.
func (d *DB) Compact(ctx context.Context, start, limit []byte) error {
	if d == nil || d.closed.Load() {
		return ErrClosed
	}
	if ctx == nil {
		return errNilContext("Compact")
	}
	if start != nil && limit != nil && d.cmp.Compare(start, limit) > 0 {
		return errors.New("sievedb: Compact: start is behind limit")
	}
	if err := d.Flush(); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.cond.Broadcast()
	})
	defer stop()
	fresh := d.set.NewFileNum() // tables from here on are written by this call, or later
	for level := 0; level < NumLevels-1; level++ {
		if err := d.compactLevel(ctx, level, start, limit); err != nil {
			return err
		}
	}
	return d.rewriteLastLevel(ctx, start, limit, fresh)
}

// compactLevel moves level's tables within the range down, unless it is the last
// that holds any there. Those that are written meanwhile it leaves to others, or it
// would not end before the writes do.
func (d *DB) compactLevel(ctx context.Context, level int, start, limit []byte) error {
	from, since := start, d.set.NewFileNum()
	for {
		c, err := d.claim(ctx, func(v *manifest.Version) (*manifest.Compaction, bool) {
			if !slices.ContainsFunc(v.Overlapping(level, from, limit), func(f *manifest.FileMeta) bool { return f.Num < since }) {
				return nil, false
			}
			below := false
			for l := level + 1; l < NumLevels; l++ {
				below = below || len(v.Overlapping(l, start, limit)) > 0
			}
			out := level + 1
			if level == 0 {
				out = v.Shape(d.pickOptions()).BaseLevel
			} else if !below {
				return nil, false
			}
			return v.PickRange(level, out, from, limit, manualStep, d.pickOptions())
		})
		if err != nil || c == nil {
			return err
		}
		if level > 0 {
			from = base.UserKey(c.Inputs[len(c.Inputs)-1].Largest)
		}
		if err := d.compactClaimed(c); err != nil {
			return err
		}
	}
}

// rewriteLastLevel rewrites the tables of the deepest level within the range
// that this call has not written yet.
func (d *DB) rewriteLastLevel(ctx context.Context, start, limit []byte, fresh uint64) error {
	for {
		c, err := d.claim(ctx, func(v *manifest.Version) (*manifest.Compaction, bool) {
			for level := NumLevels - 1; level > 0; level-- {
				files := v.Overlapping(level, start, limit)
				if len(files) == 0 {
					continue
				}
				stale := firstRun(files, func(f *manifest.FileMeta) bool { return f.Num < fresh })
				if len(stale) == 0 {
					return nil, false
				}
				return v.PickRange(level, level, base.UserKey(stale[0].Smallest),
					base.UserKey(stale[len(stale)-1].Largest), manualStep, d.pickOptions())
			}
			return nil, false
		})
		if err != nil || c == nil {
			return err
		}
		if err := d.compactClaimed(c); err != nil {
			return err
		}
	}
}

// firstRun returns the first files, all neighbours, for which is holds.
func firstRun(files []*manifest.FileMeta, is func(*manifest.FileMeta) bool) []*manifest.FileMeta {
	i := 0
	for i < len(files) && !is(files[i]) {
		i++
	}
	j := i
	for j < len(files) && is(files[j]) {
		j++
	}
	return files[i:j]
}

// claim waits for a slot, and until pick returns a compaction whose inputs are free, or
// none at all, and claims it.
func (d *DB) claim(ctx context.Context, pick func(*manifest.Version) (c *manifest.Compaction, busy bool)) (*manifest.Compaction, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	defer d.scheduleCompactionsLocked() // a slot may have been kept for this call
	for {
		switch err := d.writeErr(); {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case d.closed.Load():
			return nil, ErrClosed
		case err != nil:
			return nil, err
		}
		if d.placing {
			d.cond.Wait()
			continue
		}
		if d.slots >= d.opts.MaxConcurrentCompactions {
			d.claimers++ // the next one that is free is not for the background
			d.cond.Wait()
			d.claimers--
			continue
		}
		c, busy := pick(d.state.Load().version)
		if c != nil {
			d.startLocked(c)
			return c, nil
		}
		if !busy {
			return nil, nil
		}
		if d.compactions == 0 && !d.flushing {
			return nil, errors.Wrap(d.parkedErr,
				"sievedb: tables in the range were set aside after a compaction met corruption; Repair salvages what they hold")
		}
		d.scheduleCompactionsLocked() // likewise
		d.cond.Wait()
	}
}

func (d *DB) compactClaimed(c *manifest.Compaction) error {
	err := d.compact(c)
	d.done(c, err)
	if err == nil {
		d.scheduleCompactions()
	} else if err != ErrClosed {
		d.noteBackground(&d.compactionErr, err)
	}
	return err
}
