package changes

import (
	"cmp"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/vfs"
)

// Options configure an Archive.
type Options struct {
	FS     vfs.FS
	Dir    string // of the database
	Logger *slog.Logger
	// Bytes and Age bound what is kept for positions without a cursor; 0 means no bound.
	Bytes uint64
	Age   time.Duration
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Archive keeps the segments of one open database. Its methods are safe for concurrent use.
type Archive struct {
	o   Options
	dir string
	// broken is the error of Start, nil if it succeeded. After an error nothing is kept.
	broken error

	// mu guards the fields below. The segments form a chain. The last one is the log that the
	// database writes to now; comments call it the active log.
	mu       sync.Mutex
	segments []*segment
	cursors  map[string]uint64
	setting  *uint64 // the position of a cursor that is being written

	hints
	cursorMu sync.Mutex // held while the cursors are written
	closed   bool       // guarded by cursorMu
	moving   sync.Mutex // held while files are moved or removed
	left     []uint64   // the logs that Keep has not moved yet, ascending; guarded by moving
	signal   signal
}

// New returns the Archive of a database that is being opened. It reads the cursors.
func New(o Options) (*Archive, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	a := &Archive{o: o, dir: filepath.Join(o.Dir, base.ChangesDir)}
	a.signal.init()
	var err error
	if a.cursors, err = readCursors(o.FS, a.dir); errors.Is(err, base.ErrCorruption) {
		o.Logger.Error("the cursors of the change feed are damaged, and none is left", "err", err)
		a.cursors, err = map[string]uint64{}, nil
	}
	return a, err
}

// SwitchLog records that the log with number num follows the active one. logged is the last sequence number in a record
// of the active log. last is the last number that was used; it is higher if later writes failed.
func (a *Archive) SwitchLog(logged, last, num uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	active := a.active()
	active.logged, active.last = logged, last
	a.beginLocked(last+1, num)
}

// RecordFailed records durably that the records of the active log after the number logged, up to last, are those of
// failed writes. Later the name of the log in the archive has these numbers. The note is for a crash before that: when
// the database no longer needs the log, nothing else says which of its records count. manifest is the number of the
// MANIFEST.
func (a *Archive) RecordFailed(logged, last, manifest uint64) error {
	a.mu.Lock()
	s := *a.active()
	a.mu.Unlock()
	if a.broken != nil || logged == last || last < s.first {
		return nil
	}
	s.logged, s.last = logged, last
	e := Event{Manifest: manifest}
	err := e.write(a.o.FS, a.failurePath(s))
	if err == nil {
		err = a.o.FS.SyncDir(a.dir)
	}
	return errors.Wrap(base.NoSpace(err), "sievedb: recording a failed write for DB.Changes")
}

// failurePath returns the path of the note that RecordFailed writes about a log.
func (a *Archive) failurePath(s segment) string {
	s.pending = true
	return filepath.Join(a.dir, s.name())
}

// removeNote removes the note of RecordFailed about a log. It is called once the log has its name in the archive. If a
// crash leaves the note, nothing depends on it.
func (a *Archive) removeNote(s segment) error {
	if err := a.o.FS.Remove(a.failurePath(s)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// active returns the active log.
func (a *Archive) active() *segment { return a.segments[len(a.segments)-1] }

func (a *Archive) beginLocked(first, num uint64) {
	a.segments = append(a.segments, &segment{
		first: first, logged: unknown, last: unknown, live: num,
		path: filepath.Join(a.o.Dir, base.FileName(base.FileLog, num)),
	})
}

// Keep moves a log that the database no longer needs to the archive. Then it removes the segments that are beyond the
// bounds. If a log cannot be moved, it and later ones stay where they are until the next call or the next opening.
func (a *Archive) Keep(num uint64) error {
	err := a.keepLeft(num)
	a.trim()
	return err
}

// keepLeft moves the logs that earlier calls could not move, and then this one. The order matters, because trim stops
// at a log that was not moved.
func (a *Archive) keepLeft(num uint64) error {
	a.moving.Lock()
	defer a.moving.Unlock()
	a.left = append(a.left, num)
	for len(a.left) > 0 {
		err := a.keepMoving(a.left[0])
		if err != nil && a.broken == nil && a.isLive(a.left[0]) {
			return err
		}
		a.left = a.left[1:]
		if err != nil {
			return err
		}
	}
	return nil
}

// isLive reports whether a log is in the directory of the database.
func (a *Archive) isLive(num uint64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.ContainsFunc(a.segments, func(s *segment) bool { return s.live == num })
}

func (a *Archive) keepMoving(num uint64) error {
	a.mu.Lock()
	i := slices.IndexFunc(a.segments, func(s *segment) bool { return s.live == num })
	if i < 0 || a.broken != nil {
		a.mu.Unlock()
		return a.o.FS.Remove(filepath.Join(a.o.Dir, base.FileName(base.FileLog, num)))
	}
	s := *a.segments[i]
	a.mu.Unlock()
	from := s.path
	if s.last < s.first { // the log has no record
		err := a.o.FS.Remove(from)
		a.mu.Lock()
		a.segments = slices.DeleteFunc(a.segments, func(s *segment) bool { return s.live == num })
		a.mu.Unlock()
		return err
	}
	err := a.moveIn(&s)
	if _, gone := a.o.FS.Lstat(from); s.path == from && !errors.Is(gone, fs.ErrNotExist) {
		return err // if another program removed the log, later ones do not wait for it
	}
	if s.logged != s.last && err == nil {
		err = a.removeNote(s)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, old := range a.segments {
		if old.live == num {
			a.renamed(from, s.path)
			s.live = 0
			a.segments[i] = &s
		}
	}
	return err
}

// moveIn moves a log durably to the archive, and sets its path, size and time. The log keeps its old name until the new
// one is durable, because a rename changes two directories: after a power cut, the log could be in neither. If moveIn
// fails but has changed the path, the log has been moved, although perhaps not durably.
func (a *Archive) moveIn(s *segment) error {
	from, to := s.path, filepath.Join(a.dir, s.name())
	renamed, err := a.linkIn(from, to)
	if err != nil {
		return err
	}
	err = a.o.FS.SyncDir(a.dir)
	if err == nil && !renamed {
		err = a.o.FS.Remove(from)
	}
	if err != nil && !renamed {
		return err
	}
	s.path, s.at = to, a.o.Now()
	if info, err := a.o.FS.Stat(to); err == nil {
		s.size = uint64(info.Size())
	}
	return err
}

// linkIn gives a log its name in the archive. On a file system without links it renames the log.
func (a *Archive) linkIn(from, to string) (renamed bool, err error) {
	err = a.o.FS.Link(from, to)
	if errors.Is(err, fs.ErrExist) { // left by an earlier attempt
		if err = a.o.FS.Remove(to); err == nil {
			err = a.o.FS.Link(from, to)
		}
	}
	if err == nil {
		return false, nil
	}
	return true, a.o.FS.Rename(from, to)
}

// trim removes the oldest segments beyond Options.Bytes and Age that no cursor needs. Logs that the
// database needs stay.
func (a *Archive) trim() {
	a.moving.Lock()
	defer a.moving.Unlock()
	for {
		s := a.takeOldest()
		if s == nil {
			return
		}
		if err := a.remove(s); err != nil {
			a.o.Logger.Warn("cannot remove an old segment of the change feed; the next opening tries again", "err", err)
		}
	}
}

// takeOldest takes the oldest segment from the list if it is to be removed, and returns it. Otherwise it returns nil.
func (a *Archive) takeOldest() *segment {
	a.mu.Lock()
	defer a.mu.Unlock()
	total := uint64(0)
	for _, s := range a.segments {
		total += s.size
	}
	s := a.segments[0]
	tooMuch := a.o.Bytes > 0 && total > a.o.Bytes
	if s.live > 0 || !tooMuch && !a.tooOldLocked() {
		return nil
	}
	for _, at := range a.cursors {
		if s.keptFor(at) {
			return nil
		}
	}
	if a.setting != nil && s.keptFor(*a.setting) {
		return nil
	}
	a.segments = slices.Delete(a.segments, 0, 1)
	return s
}

// tooOldLocked reports whether the oldest segment is older than Options.Age. If the clock was wrong, its time may be in
// the future. Then it counts as too old when a later segment is.
func (a *Archive) tooOldLocked() bool {
	if a.o.Age == 0 {
		return false
	}
	now := a.o.Now()
	tooOld := func(s *segment) bool { return s.live == 0 && now.Sub(s.at) > a.o.Age }
	oldest := a.segments[0]
	return tooOld(oldest) || oldest.at.After(now) && slices.ContainsFunc(a.segments, tooOld)
}

// keptFor reports whether a cursor needs the oldest segment. A cursor whose next changes have been removed needs
// nothing.
func (s *segment) keptFor(position uint64) bool { return s.first <= position+1 && position < s.last }

// remove removes the files of a segment, first the one with the segment's name: while that exists, the others must too.
func (a *Archive) remove(s *segment) error {
	err := a.o.FS.Remove(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	for _, t := range s.tables {
		if tableErr := a.o.FS.Remove(t); !errors.Is(tableErr, fs.ErrNotExist) {
			err = errors.CombineErrors(err, tableErr)
		}
	}
	return err
}

// Oldest returns the oldest position from which changes can be read.
func (a *Archive) Oldest() (uint64, error) {
	if a.broken != nil {
		return 0, a.broken
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.segments[0].first - 1, nil
}

// Kept returns the number of the kept segments, and their bytes.
func (a *Archive) Kept() (segments int, bytes uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, s := range a.segments {
		if s.live == 0 {
			segments++
			bytes += s.size
		}
	}
	return segments, bytes
}

// checkPosition returns an error if changes cannot be read from a position. last is the number of the last change.
func (a *Archive) checkPosition(position, last uint64) error {
	if position > last {
		return Ahead(position, last)
	}
	oldest, err := a.Oldest()
	if err == nil && position < oldest {
		err = &GoneError{position, oldest, whyGone}
	}
	return err
}

// Ahead returns the error for a position beyond the last change.
func Ahead(position, last uint64) error {
	return errors.Wrapf(ErrAhead, "position %d, the last change is %d: the database was restored or replaced, or lost writes that were not synced; "+
		"copy it again and continue from the position of the copy", position, last)
}

// find implements Source.
func (a *Archive) find(position, _ uint64) (*segment, error) {
	if a.broken != nil {
		return nil, a.broken
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return findIn(a.segments, position)
}

// atEnd implements Source. It returns nil: a change that the archive does not have yet is about to be added.
func (a *Archive) atEnd(_, _ uint64) error { return nil }

// settle implements Source.
func (a *Archive) settle() {
	a.moving.Lock()
	defer a.moving.Unlock()
}

// findIn finds the segment with the change after position in a chain whose last log may grow.
func findIn(segments []*segment, position uint64) (*segment, error) {
	i, found := slices.BinarySearchFunc(segments, position+1, func(s *segment, first uint64) int { return cmp.Compare(s.first, first) })
	if !found {
		i--
	}
	if i < 0 {
		oldest := position
		if len(segments) > 0 {
			oldest = segments[0].first - 1
		}
		return nil, &GoneError{position, oldest, whyGone}
	}
	if s := segments[i]; s.last <= position && i+1 < len(segments) {
		return nil, &GoneError{position, segments[i+1].first - 1, "numbers are missing between two logs"}
	}
	s := *segments[i]
	return &s, nil
}

// hints has the places where readers ended, so that the next reader need not read a log from its beginning.
type hints struct {
	mu   sync.Mutex
	last [16]hint
	next int
}

// hint is where in a log the record after a position begins.
type hint struct {
	path     string
	position uint64
	offset   int64
}

// hintFor implements Source.
func (h *hints) hintFor(path string, position uint64) (offset int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	best := uint64(0)
	for _, known := range h.last {
		if known.path == path && known.position <= position && known.position >= best {
			best, offset = known.position, known.offset
		}
	}
	return offset
}

// recordHint implements Source.
func (h *hints) recordHint(path string, position uint64, offset int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last[h.next%len(h.last)] = hint{path, position, offset}
	h.next++
}

// renamed records that a log was moved.
func (h *hints) renamed(from, to string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range h.last {
		if h.last[i].path == from {
			h.last[i].path = to
		}
	}
}

// signal wakes those who wait for changes.
type signal struct {
	waiting atomic.Int32
	mu      sync.Mutex
	ch      chan struct{}
}

func (s *signal) init() { s.ch = make(chan struct{}) }

// Watch returns a channel that is closed at the next change. end must be called after it.
func (a *Archive) Watch() (changed <-chan struct{}, end func()) {
	s := &a.signal
	s.waiting.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ch, func() { s.waiting.Add(-1) }
}

// Watched reports whether a reader waits for a change.
func (a *Archive) Watched() bool { return a.signal.waiting.Load() > 0 }

// Wake wakes those who wait.
func (a *Archive) Wake() {
	s := &a.signal
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.ch)
	s.init()
}
