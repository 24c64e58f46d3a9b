package compact

import (
	"bytes"
	"cmp"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/disk/pick"
	"github.com/sievedb/sievedb/internal/disk/tables"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/sstable"
	"github.com/sievedb/sievedb/vfs"
)

// maxCopies returns how many tables an upgrade copies concurrently: the number of processors, but at most 8 and at
// least 2, so that a single processor can work on one copy while the other waits for the device.
func maxCopies() int { return min(max(runtime.GOMAXPROCS(0), 2), 8) }

// upgradeStep is the upgrade of some tables, which are copied concurrently and replaced by their copies in one edit.
type upgradeStep struct {
	u      *upgrade
	c      *pick.Compaction
	nums   []uint64 // of the copies
	syncs  *tables.Syncs
	next   atomic.Int64 // the first input that has not begun
	failed atomic.Bool  // a copy has failed, so others need not continue

	// By index of c's inputs. Each element belongs to one goroutine until copy returns.
	tables []*version.FileMeta // nil if there is no copy and no file
	made   []copyFigures
	errs   []error
}

// begin claims the tables of a step of a level, or returns nil if nothing is left to upgrade.
func (u *upgrade) begin(level int) (*upgradeStep, error) {
	s := &upgradeStep{u: u, syncs: tables.NewSyncs()}
	c, err := u.s.claim(u.ctx, func(v *version.Version, _ pick.Options) (*pick.Compaction, bool) {
		files, busy := u.choose(v, level)
		if len(files) == 0 || busy {
			return nil, busy
		}
		// The oldest table gets the smallest number, since level 0 is ordered by numbers. No
		// flush is running for level 0, so none has a number whose table will appear later.
		s.nums = make([]uint64, len(files))
		for i := range s.nums {
			s.nums[len(s.nums)-1-i] = u.s.o.NewFileNum()
		}
		return &pick.Compaction{Version: v, Level: level, OutputLevel: level, Inputs: files, Reason: "filters"}, false
	})
	if err != nil || c == nil {
		return nil, upgradeError(err)
	}
	s.c, s.tables, s.errs = c, make([]*version.FileMeta, len(s.nums)), make([]error, len(s.nums))
	s.made = make([]copyFigures, len(s.nums))
	return s, nil
}

func upgradeError(err error) error { return errors.Wrap(base.NoSpace(err), "sievedb: UpgradeFilters") }

// run copies the tables and replaces them by the copies.
func (s *upgradeStep) run() error {
	c := s.u.s
	err := s.copy()
	err = c.o.Guard("an upgrade of filters", func() error { return s.place(err) })
	fault := err
	if base.IsUnreadable(err) {
		fault = nil // the tables are not set aside; compactions will find the damage themselves
	}
	_ = c.o.Guard("the removal of tables", func() error { c.finish(s.c, fault); return nil })
	c.Schedule()
	return s.u.end(s, err)
}

// end counts the tables of a step. err is the reason why no table was replaced, nil if some were.
func (u *upgrade) end(s *upgradeStep, err error) error {
	if base.IsUnreadable(err) && !slices.ContainsFunc(s.errs, base.IsUnreadable) { // the edit was refused, and would be again
		for i := range s.errs {
			s.errs[i] = err
		}
	}
	for i, f := range s.c.Inputs {
		switch {
		case base.IsUnreadable(s.errs[i]):
			u.known[f] = tableDamaged
			u.damaged(f, s.errs[i])
		case err == nil:
			u.count(f, s.nums[i], s.made[i])
			u.upgraded(f)
			u.known[s.tables[i]] = tableCurrent
		}
	}
	if err != nil && !base.IsUnreadable(err) {
		return upgradeError(err)
	}
	u.sumUp()
	if u.o.Progress != nil {
		u.o.Progress(u.report)
	}
	return nil
}

// copy copies the tables and returns the first error that prevents replacing any of them.
// Damaged tables are not copied. On levels below 0 the other tables are still replaced. The
// order of level 0 does not allow that, so its step must be repeated.
func (s *upgradeStep) copy() (err error) {
	var group sync.WaitGroup
	for range min(maxCopies(), len(s.nums)) {
		base.GoIn(&group, s.work)
	}
	group.Wait()
	for _, e := range s.errs {
		if s.stops(e) && (err == nil || err == ErrStopped) {
			err = e
		}
	}
	return err
}

// place durably replaces the tables by their copies, unless err is set. If it fails, it removes the copies' files.
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

// edit returns the edit that replaces the tables by their copies, and the copies.
func (s *upgradeStep) edit() (edit *manifest.Edit, written []*version.FileMeta) {
	edit = &manifest.Edit{}
	for i, f := range s.c.Inputs {
		if table := s.tables[i]; table != nil {
			written = append(written, table)
			edit.Deleted = append(edit.Deleted, version.DeletedFile{Level: s.c.Level, Num: f.Num})
			edit.Added = append(edit.Added, version.LevelFile{Level: s.c.Level, File: table})
		}
	}
	return edit, written
}

// stops reports whether the error of one copy prevents replacing the other tables.
func (s *upgradeStep) stops(err error) bool {
	return err != nil && (s.c.Level == 0 || !base.IsUnreadable(err))
}

// work copies one table after another.
func (s *upgradeStep) work() {
	var w *sstable.Writer // of the last table, reused for the next
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

// copyTable writes a copy of input i with the policy's filters, and starts the sync of its file. It reuses w, which
// must have finished another table, unless w is nil. If it fails, it removes the file and returns no writer.
func (s *upgradeStep) copyTable(i int, w *sstable.Writer) (*version.FileMeta, *sstable.Writer, error) {
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
		_ = file.Close() // the file will be removed
		c.o.Dir.Remove(path)
		return nil, nil, err
	}
	_ = s.syncs.Add(file) // syncs.Wait returns the error
	return table, w, nil
}

// writer returns a writer that writes a table to file. It reuses w if that is not nil.
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

func (s *upgradeStep) copyTo(w *sstable.Writer, r *sstable.Reader, i int) (*version.FileMeta, error) {
	f := s.c.Inputs[i]
	if err := w.CopyBlocks(r, func(int) error { return s.interrupted() }); err != nil {
		return nil, err
	}
	if !bytes.Equal(w.Smallest(), f.Smallest) || !bytes.Equal(w.Largest(), f.Largest) {
		err := base.Corruptf("table", -1, "its first and last key differ; want those in the MANIFEST")
		return nil, base.InFile(err, s.u.s.o.Dir.File(base.FileTable, f.Num), -1)
	}
	props, err := w.Finish()
	if err != nil {
		return nil, err
	}
	s.made[i] = copyFigures{keys: props.FilterKeys, filterBytes: w.AllFiltersSize()}
	table := version.NewFileMeta(s.nums[i], w.Size(), w.Smallest(), bytes.Clone(w.Largest()))
	table.SetCounts(f.Counts())
	table.SetOrigin(f.Origin())
	table.Handle = tables.HandleOf(w)
	return table, nil
}

// interrupted returns the reason to stop copying a table, or nil.
func (s *upgradeStep) interrupted() error {
	if s.failed.Load() {
		return ErrStopped
	}
	if s.u.s.state.isClosed() {
		return base.ErrClosed
	}
	return s.u.ctx.Err()
}
