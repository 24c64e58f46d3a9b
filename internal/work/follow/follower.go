package follow

import (
	"context"
	"io/fs"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/vfs"
)

// Options say what to follow.
type Options struct {
	FS  vfs.FS // with the tables and the MANIFEST
	Dir string
	// FindLogs returns the file system that shows the logs as files of Dir. It is called again when the
	// writer has opened the database again.
	FindLogs func() (vfs.FS, error)
	// Check returns an error if a database with this record cannot be followed.
	Check func(manifest.Recorded) error
	// Manifest are the options of the versions. The Follower sets FS, Dir and Obsolete.
	Manifest manifest.SetOptions
	// Closing is closed when the store closes: a Refresh then ends soon.
	Closing <-chan struct{}
	// Drop is called with tables that no version contains any more. It must not block.
	Drop func([]version.LevelFile)
	// MemtableSize bounds the usual memory of one memtable, in bytes.
	MemtableSize int
}

// View is what readers see.
type View struct {
	Version   *version.Version
	Memtables []Memtable // the newest first
	Seq       uint64     // the last sequence number
	Recorded  manifest.Recorded
}

// Follower follows one database. Its methods may be called from any goroutine.
type Follower struct {
	o    Options
	pins *pins

	failure atomic.Pointer[error] // of the last Refresh that ended by itself; nil if it succeeded

	mu       sync.Mutex // held by Refresh and Lag
	tail     *manifest.Tail
	reading  *manifest.Reading // the published one; nil before the first
	logs     logSet
	seq      uint64    // of the view that was published
	complete time.Time // when the last Refresh began that read everything
	closed   bool
	panicked bool
	patience int // attempts without progress; maxStill, except in tests
}

// logSet are the logs of the view that was published.
type logSet struct {
	fs   vfs.FS // that shows them
	open []*logTail
}

// New returns a Follower that has read nothing.
func New(o Options) *Follower {
	f := &Follower{o: o, pins: newPins(o.FS), patience: maxStill}
	m := &f.o.Manifest
	m.FS, m.Dir, m.LogsMarked, m.Obsolete = o.FS, o.Dir, true, f.drop
	f.tail = manifest.NewTail(*m)
	return f
}

// FS returns the file system in which tables can be opened while a version has them.
func (f *Follower) FS() vfs.FS { return f.pins }

// Pinned reports whether info describes the table that versions have under a path.
func (f *Follower) Pinned(path string, info fs.FileInfo) bool { return f.pins.has(path, info) }

// Set returns the set of the versions. It is only for reading.
func (f *Follower) Set() *manifest.Set { return f.tail.Set() }

// ManifestName returns the name of the MANIFEST.
func (f *Follower) ManifestName() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.tail.Name()
}

// drop releases tables that no version contains.
func (f *Follower) drop(files []version.LevelFile) {
	f.o.Drop(files)
	var metas []*version.FileMeta
	for _, file := range files {
		metas = append(metas, file.File)
	}
	f.pins.drop(metas)
}

// An attempt without progress has met a writer between the two steps of a change. These are microseconds apart, on a
// loaded machine some milliseconds. All maxStill attempts together wait for about an eighth of a second. If a writer is
// so busy that each attempt meets another change, a Refresh ends after maxTime.
const (
	maxStill  = 8
	firstWait = time.Millisecond
	maxTime   = time.Second
)

// IsGap reports whether err says that operations are missing between two records of the logs. Those before the gap have
// been published.
func IsGap(err error) bool {
	var gap *gapError
	return errors.As(err, &gap)
}

// Refresh reads what the writer has written since the last Refresh, and publishes it. publish must make
// view.Seq the visible sequence number first, and the version and the memtables the state of the readers
// second. After an error the old view stays, unless IsGap says otherwise.
func (f *Follower) Refresh(ctx context.Context, publish func(View)) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return base.ErrClosed
	}
	err := f.step(func(s *step) error { return s.run(ctx, publish) })
	switch {
	case err == nil:
		f.failure.Store(nil)
	case ctx.Err() == nil && err != base.ErrClosed:
		f.failure.Store(&err)
	}
	return err
}

// Failure returns the error of the last Refresh, nil if it succeeded. One whose context was done does not count.
func (f *Follower) Failure() error {
	if err := f.failure.Load(); err != nil {
		return *err
	}
	return nil
}

// step calls do with a new step, unless an earlier one has panicked.
func (f *Follower) step(do func(s *step) error) error {
	if f.panicked {
		return errors.Newf("sievedb: following %s: a panic interrupted an earlier refresh; close the follower and open it again", f.o.Dir)
	}
	f.panicked = true
	s := f.newStep()
	defer s.end()
	err := do(s)
	f.panicked = false
	return err
}

// run reads and publishes. Refresh prepares it, and cleans up after it.
func (s *step) run(ctx context.Context, publish func(View)) error {
	start, err := s.read(ctx)
	if err != nil && !IsGap(err) {
		return err
	}
	if err = errors.CombineErrors(s.checkOrder(), err); err == nil || IsGap(err) {
		s.publish(publish)
	}
	if err == nil {
		s.f.complete = start
	}
	return err
}

// read repeats try until it has read everything, or makes no progress. start is when the Refresh began. If IsGap
// recognizes the error, what was read up to the gap can be used.
func (s *step) read(ctx context.Context) (start time.Time, err error) {
	f, wait := s.f, time.Duration(0)
	start = time.Now()
	for still := 0; ; still++ {
		before := s.progress()
		final := still == f.patience || time.Since(start) > maxTime
		err := s.try()
		if err == nil || IsGap(err) && final {
			return start, err
		}
		if s.progress() != before && !final {
			still, wait = 0, 0
		} else if final {
			return start, errors.Wrapf(err, "sievedb: following %s", f.o.Dir)
		}
		select {
		case <-ctx.Done():
			return start, ctx.Err()
		case <-f.o.Closing:
			return start, base.ErrClosed
		case <-time.After(wait):
			wait = max(2*wait, firstWait)
		}
	}
}

// step is the work of one Refresh.
type step struct {
	f       *Follower
	reading *manifest.Reading
	logs    logSet
	pinned  []*version.FileMeta
	done    bool
}

func (f *Follower) newStep() *step { return &step{f: f, reading: f.reading, logs: f.logs} }

// progress measures how much was read: if two attempts have the same progress, the second one has read nothing new.
func (s *step) progress() (p struct {
	reading *manifest.Reading
	seq     uint64
}) {
	p.reading, p.seq = s.reading, s.last()
	return p
}

// last returns the last sequence number that was read.
func (s *step) last() (seq uint64) {
	if s.reading != nil {
		seq = s.reading.LastSeq
	}
	for _, l := range s.logs.open {
		seq = max(seq, l.last)
	}
	return seq
}

// try reads the MANIFEST, the tables and the logs once.
func (s *step) try() error {
	f := s.f
	if _, err := s.readManifest(); err != nil {
		return err
	}
	if err := f.o.Check(s.reading.Recorded); err != nil {
		return err
	}
	if s.reading != f.reading {
		pinned, err := f.pins.add(f.o.Dir, s.reading.Version)
		s.pinned = append(s.pinned, pinned...)
		if err != nil {
			return missingTable(err)
		}
	}
	logs, missing, err := f.neededLogs(s.logs, s.reading)
	if err != nil {
		return err
	}
	closeLogs(s.logs.open, logs, f.logs.open)
	s.logs.open = logs
	if missing {
		if err := s.checkMissing(); err != nil {
			return err
		}
	}
	return f.readLogs(s.reading, logs, s.reading != f.reading)
}

// readManifest reads what was added to the MANIFEST, and finds the logs if it is another one.
func (s *step) readManifest() (added bool, err error) {
	r, fresh, err := s.f.tail.Read(s.reading)
	if err != nil {
		return false, err
	}
	added = r != s.reading
	s.take(r)
	if fresh {
		s.forgetLogs()
		s.logs.fs = nil
	}
	if s.logs.fs == nil {
		s.logs.fs, err = s.f.o.FindLogs()
	}
	return added, err
}

// errAgain is the error of an attempt during which the writer has made a change.
var errAgain = errors.Sentinel("sievedb: the writer has changed the database meanwhile")

// checkMissing decides whether the log that the edits name may be missing. Usually a later edit no longer needs it: a
// writer writes such an edit before it removes the log. If there is none, goleveldb has flushed an empty memtable, or
// the log is lost; see replay.checkLog.
func (s *step) checkMissing() error {
	added, err := s.readManifest()
	switch {
	case err != nil:
		return err
	case added:
		return errAgain
	case s.reading.ByGoLevelDB || len(s.logs.open) == 0:
		return nil
	}
	path := filepath.Join(s.f.o.Dir, s.f.tail.Name())
	return base.InFile(base.Corruptf("version edit", -1, "the edits need %s, which is missing",
		base.FileName(base.FileLog, s.reading.LogNum)), path, -1)
}

// missingTable turns the error of a missing table into one of a damaged database.
func missingTable(err error) error {
	var p *fs.PathError
	if errors.Is(err, fs.ErrNotExist) && errors.As(err, &p) {
		return base.InFile(base.Corruptf("table", -1, "the MANIFEST names it, but it is missing"), p.Path, -1)
	}
	return errors.Wrap(err, "a follower keeps each table open, because the writer may remove it")
}

// take makes r the reading of the step.
func (s *step) take(r *manifest.Reading) {
	if s.reading != r && s.reading != s.f.reading {
		s.reading.Discard()
	}
	s.reading = r
}

// forgetLogs makes the step open the logs again and read them from their beginning, since other files may have their
// names by now.
func (s *step) forgetLogs() {
	closeLogs(s.logs.open, s.f.logs.open)
	s.logs.open = nil
}

// checkOrder refuses a database that is older than the view.
func (s *step) checkOrder() error {
	if now := s.last(); now < s.f.seq {
		return errors.Newf("sievedb: following %s: the last operation is number %d now, but it was %d: the database was restored, repaired or replaced. "+
			"Readers keep the old view; close the follower and open it again", s.f.o.Dir, now, s.f.seq)
	}
	return nil
}

// publish publishes what was read.
func (s *step) publish(install func(View)) {
	f := s.f
	s.done = true
	view := View{Version: s.reading.Version, Seq: s.last(), Recorded: s.reading.Recorded}
	changed := s.reading != f.reading || view.Seq != f.seq || len(s.logs.open) != len(f.logs.open)
	for i := len(s.logs.open) - 1; i >= 0; i-- {
		l := s.logs.open[i]
		for j := len(l.mems) - 1; j >= 0; j-- {
			view.Memtables = append(view.Memtables, Memtable{l.mems[j], l.num})
		}
		l.published = len(l.mems)
	}
	closeLogs(f.logs.open, s.logs.open)
	old := f.reading
	f.reading, f.logs, f.seq = s.reading, s.logs, view.Seq
	switch {
	case s.reading != old:
		f.tail.Publish(s.reading, func(*version.Version) { install(view) })
	case changed:
		install(view)
	}
	s.unpin()
}

// end releases what the step has not published.
func (s *step) end() {
	if s.done {
		return
	}
	s.forgetLogs()
	if s.reading != s.f.reading {
		_ = s.f.tail.Close() // it is after the discarded edits, so the next Refresh reads the whole MANIFEST
	}
	s.take(s.f.reading)
	s.unpin()
}

// unpin closes the tables that the step has opened and that are not in the version.
func (s *step) unpin() {
	var unused []*version.FileMeta
	for _, file := range s.pinned {
		if !file.InVersion() {
			unused = append(unused, file)
		}
	}
	s.f.pins.drop(unused)
}

// Close closes all files. Views stay in memory, but their tables cannot be opened any more.
func (f *Follower) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	closeLogs(f.logs.open)
	f.logs.open = nil
	return errors.CombineErrors(f.tail.Close(), f.pins.close())
}
