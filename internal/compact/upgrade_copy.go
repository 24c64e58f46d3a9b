package compact

import (
	"bytes"
	"cmp"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/errors"
	"github.com/sievedb/sievedb/internal/manifest"
	"github.com/sievedb/sievedb/internal/tables"
	"github.com/sievedb/sievedb/sstable"
	"github.com/sievedb/sievedb/vfs"
)

// copiesAtOnce is how many tables an upgrade copies at once: as many as there are
// processors, within bounds, and two on a single one, which then works for one
// while the other waits for the device.
func copiesAtOnce() int { return min(max(runtime.GOMAXPROCS(0), 2), 8) }

// upgradeStep is the upgrade of some tables, which are copied side by side and take their
// places in one edit.
type upgradeStep struct {
	u      *upgrade
	c      *manifest.Compaction
	nums   []uint64 // of the copies
	syncs  *tables.Syncs
	next   atomic.Int64 // the input that nobody has begun
	failed atomic.Bool  // no other need go on

	copied, placed chan struct{} // closed when it is done

	// By the inputs of c. Each is one goroutine's until copied is closed.
	tables []*manifest.FileMeta // nil: not written, no file is left
	made   []madeTable
	errs   []error

	err error // valid when placed is closed: why no copy is in its place
}

// begin starts a step of a level, or returns nil where nothing is left to upgrade.
func (u *upgrade) begin(level int) (*upgradeStep, error) {
	s := &upgradeStep{u: u, syncs: tables.NewSyncs(), copied: make(chan struct{}), placed: make(chan struct{})}
	c, err := u.s.Claim(u.ctx, func(v *manifest.Version, _ manifest.PickOptions) (*manifest.Compaction, bool) {
		files, busy := u.choose(v, level)
		if len(files) == 0 || busy {
			return nil, busy
		}
		// Oldest first, which is what the order of numbers says in level 0. There no flush
		// is under way, so that none has taken a number yet that its table will come with later.
		s.nums = make([]uint64, len(files))
		for i := range s.nums {
			s.nums[len(s.nums)-1-i] = u.s.o.NewFileNum()
		}
		return &manifest.Compaction{Version: v, Level: level, OutputLevel: level, Inputs: files, Reason: "filters"}, false
	})
	if err != nil || c == nil {
		return nil, upgradeError(err)
	}
	for _, f := range c.Inputs {
		if u.known[f] == tableStale {
			u.known[f] = tableChosen
		}
	}
	s.c, s.tables, s.errs = c, make([]*manifest.FileMeta, len(s.nums)), make([]error, len(s.nums))
	s.made = make([]madeTable, len(s.nums))
	go s.run()
	return s, nil
}

func upgradeError(err error) error { return errors.Wrap(base.NoSpace(err), "sievedb: UpgradeFilters") }

// end waits for a step, if there is one, and counts what it did.
func (u *upgrade) end(s *upgradeStep) error {
	if s == nil {
		return nil
	}
	<-s.placed
	for i, f := range s.c.Inputs {
		switch {
		case errors.Is(s.errs[i], base.ErrCorruption):
			u.known[f] = tableDamaged
			u.damaged(f, s.errs[i])
		case s.err == nil:
			u.count(f, s.nums[i], s.made[i])
			u.upgraded(f)
			u.known[s.tables[i]] = tableCurrent
		case u.known[f] == tableChosen:
			u.known[f] = tableStale
		}
	}
	if s.err != nil && !errors.Is(s.err, base.ErrCorruption) {
		return upgradeError(s.err)
	}
	u.sumUp()
	if u.o.Progress != nil {
		u.o.Progress(u.report)
	}
	return nil
}

// run copies the tables and puts the copies in their places.
func (s *upgradeStep) run() {
	c := s.u.s
	defer close(s.placed)
	err := c.o.Guard("an upgrade of filters", s.copy)
	close(s.copied)
	// What is left is no merge: somebody else, the next step too, may have the slot.
	c.mu.Lock()
	c.slots--
	c.scheduleLocked()
	c.cond.Broadcast()
	c.mu.Unlock()
	s.err = c.o.Guard("an upgrade of filters", func() error { return s.place(err) })
	c.mu.Lock()
	c.slots++
	c.mu.Unlock()
	if err = s.err; errors.Is(err, base.ErrCorruption) {
		err = nil // not set aside: compactions find out for themselves
	}
	_ = c.o.Guard("the removal of tables", func() error { c.Done(s.c, err); return nil })
	c.Schedule()
}

// copy returns the first error that keeps all copies from their places. Damaged tables are
// left as they are: on levels below 0 the others go without them, level 0, whose order forbids
// that, has to be done again.
func (s *upgradeStep) copy() (err error) {
	var group sync.WaitGroup
	for range min(copiesAtOnce(), len(s.nums)) {
		group.Go(s.work)
	}
	group.Wait()
	for _, e := range s.errs {
		if s.stops(e) && (err == nil || err == ErrStopped) {
			err = e
		}
	}
	if err == nil && s.failed.Load() {
		err = ErrStopped
	}
	return err
}

// place has the copies take their places, durably, unless there is an error. After one no
// file of theirs is left.
func (s *upgradeStep) place(err error) error {
	c := s.u.s
	edit, written := s.edit()
	err = cmp.Or(err, s.syncs.Wait())
	if err == nil && len(written) > 0 {
		err = c.o.Dir.FS.SyncDir(c.o.Dir.Path)
	}
	if err != nil {
		for _, f := range written {
			c.o.Dir.Remove(c.o.Dir.File(base.FileTable, f.Num))
		}
		return err
	}
	if len(written) == 0 {
		return nil
	}
	return c.host.Apply(edit, written)
}

// edit returns what puts the copies in their places, and them.
func (s *upgradeStep) edit() (edit *manifest.Edit, written []*manifest.FileMeta) {
	edit = &manifest.Edit{}
	for i, f := range s.c.Inputs {
		if table := s.tables[i]; table != nil {
			written = append(written, table)
			edit.Deleted = append(edit.Deleted, manifest.DeletedFile{Level: s.c.Level, Num: f.Num})
			edit.Added = append(edit.Added, manifest.LevelFile{Level: s.c.Level, File: table})
		}
	}
	return edit, written
}

// stops reports whether a table that could not be copied keeps the others from
// their places.
func (s *upgradeStep) stops(err error) bool {
	return err != nil && (s.c.Level == 0 || !errors.Is(err, base.ErrCorruption))
}

// work copies one table after another.
func (s *upgradeStep) work() {
	var w *sstable.Writer // of the last table, whose memory serves the next
	for !s.failed.Load() {
		i := int(s.next.Add(1)) - 1
		if i >= len(s.nums) {
			return
		}
		s.errs[i] = s.u.s.o.Guard("an upgrade of filters", func() (err error) {
			s.tables[i], w, err = s.copyTable(i, w)
			return err
		})
		if s.stops(s.errs[i]) {
			s.failed.Store(true)
		}
	}
}

// copyTable writes input i anew, with the policy's filters, and has its file synced. The writer,
// if there is one, has finished another table. After an error no file is left, and no writer.
func (s *upgradeStep) copyTable(i int, w *sstable.Writer) (*manifest.FileMeta, *sstable.Writer, error) {
	c := s.u.s
	r, err := c.o.Cache.Ref(s.c.Inputs[i])
	if err != nil {
		return nil, nil, err
	}
	defer r.Unref()
	path := c.o.Dir.File(base.FileTable, s.nums[i])
	file, err := c.o.Dir.FS.Create(path)
	if err != nil {
		return nil, nil, err
	}
	w = s.u.writer(w, file, s.c.Level, s.nums[i])
	table, err := s.copyTo(w, r, i)
	if err != nil {
		_ = file.Close() // the file goes away
		c.o.Dir.Remove(path)
		return nil, nil, err
	}
	_ = s.syncs.Add(file) // wait tells
	return table, w, nil
}

// writer returns a writer of a table to file: w where that is not nil.
func (u *upgrade) writer(w *sstable.Writer, file vfs.File, level int, num uint64) *sstable.Writer {
	o := u.tables
	o.Filter = u.policy
	if u.bits != nil {
		o.Filter = u.bits[level].Policy(u.policy, num)
	}
	if w == nil {
		return sstable.NewWriter(file, o)
	}
	w.Reset(file)
	w.SetFilter(o.Filter)
	return w
}

func (s *upgradeStep) copyTo(w *sstable.Writer, r *sstable.Reader, i int) (*manifest.FileMeta, error) {
	f := s.c.Inputs[i]
	if err := w.CopyBlocks(r, func(int) error { return s.interrupted() }); err != nil {
		return nil, err
	}
	if !bytes.Equal(w.Smallest(), f.Smallest) || !bytes.Equal(w.Largest(), f.Largest) {
		err := base.Corruptf("table", -1, "its first and last key are not those that the MANIFEST says")
		return nil, base.InFile(err, s.u.s.o.Dir.File(base.FileTable, f.Num), -1)
	}
	props, err := w.Finish()
	if err != nil {
		return nil, err
	}
	s.made[i] = madeTable{keys: props.FilterKeys, filterBytes: w.AllFiltersSize()}
	table := manifest.NewFileMeta(s.nums[i], w.Size(), w.Smallest(), bytes.Clone(w.Largest()))
	table.Counts.Store(f.Counts.Load())
	table.Handle = tables.HandleOf(w)
	return table, nil
}

// interrupted says why a table need not be copied to its end.
func (s *upgradeStep) interrupted() error {
	if s.failed.Load() {
		return ErrStopped
	}
	if s.u.s.closed.Load() {
		return base.ErrClosed
	}
	return s.u.ctx.Err()
}
