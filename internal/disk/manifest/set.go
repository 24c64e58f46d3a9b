package manifest

import (
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/internal/disk/wal"
	"github.com/sievedb/sievedb/util"
	"github.com/sievedb/sievedb/vfs"
)

// SetOptions are the location of a Set, its limits, and its callbacks.
type SetOptions struct {
	FS  vfs.FS
	Dir string
	Cmp *base.Comparer
	// LogsElsewhere says that the logs are in another directory: base.LogDirPrefix begins the
	// comparer's name in new MANIFESTs, so that other engines refuse them. LogsMarked says that the
	// comparer's name in a MANIFEST that is loaded may begin with it.
	LogsElsewhere, LogsMarked bool
	MaxManifestSize           int64 // size in bytes at which Apply starts a new MANIFEST; see rollSize
	// ReadLimit is the size in bytes above which Load refuses a MANIFEST, and Begin and Apply
	// refuse to make one; 0 means no limit.
	ReadLimit int64
	// MaxTables is the largest number of tables in a MANIFEST that Load accepts; 0 means any
	// number. It should be slightly greater than the number of tables in the directory,
	// because callers that look for each table report better which one is missing.
	MaxTables int
	// Obsolete and NewHandle are those of the Owner of the versions.
	Obsolete  func([]version.LevelFile)
	NewHandle func() any
	// Clock, if not nil, returns the time to record with each edit, in milliseconds since 1970; see
	// Recorded. It must not wait for the Set.
	Clock func() uint64
	// Verify, if not nil, returns an error if the directory is not the Set's any more. It must not wait for the Set.
	Verify func() error
}

// Set owns the current version and the MANIFEST. Calls of Apply are serialized; all other methods are
// safe for concurrent use.
type Set struct {
	opts SetOptions
	// maxRecord is wal.MaxRecordSize, except in tests.
	maxRecord int

	nextFileNum atomic.Uint64 // the next unused number
	owner       version.Owner

	// mu serializes Apply, including its input and output, and guards the following fields.
	mu             sync.Mutex
	log            *wal.Writer
	own            [2]OwnFile // the file of log, and CURRENT
	snapshotSize   int64      // size of log after its snapshot was written
	firstRecordSum uint32     // checksum of that snapshot's record
	manifestNum    uint64
	logNum         uint64
	lastSeq        uint64 // as recorded
	recorded       Recorded
	unrecorded     bool // recorded became zero, but an edit of the current MANIFEST may have recorded something
	buf            []byte
	// full is the error of a full disk, after which the current MANIFEST accepts no edits. The
	// next edit goes to a new MANIFEST.
	full error
	err  error // the first failure of another kind, after which no edit is accepted

	current atomic.Pointer[version.Version]
}

// New returns the Set of an empty database. Begin writes its first files.
func New(o SetOptions) *Set {
	s := &Set{opts: o, maxRecord: wal.MaxRecordSize}
	s.nextFileNum.Store(1)
	s.owner.Obsolete, s.owner.NewHandle = o.Obsolete, o.NewHandle
	s.current.Store(version.New(o.Cmp, &s.owner))
	return s
}

// Current returns the newest version. Callers that retain it must take a reference.
func (s *Set) Current() *version.Version { return s.current.Load() }

// RefCurrent returns the newest version with a reference, which the caller must release.
func (s *Set) RefCurrent() *version.Version {
	for {
		if v := s.current.Load(); v.TryRef() {
			return v
		}
	}
}

// NewFileNum returns an unused file number.
func (s *Set) NewFileNum() uint64 { return s.nextFileNum.Add(1) - 1 }

// NextFileNum returns the number that NewFileNum returns next.
func (s *Set) NextFileNum() uint64 { return s.nextFileNum.Load() }

// MarkUsed makes sure that NewFileNum never returns num, which was found in the directory.
func (s *Set) MarkUsed(num uint64) {
	for {
		next := s.nextFileNum.Load()
		if num < next || s.nextFileNum.CompareAndSwap(next, num+1) {
			return
		}
	}
}

// ManifestNum returns the number of the current MANIFEST.
func (s *Set) ManifestNum() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.manifestNum
}

// FirstRecordSum returns the checksum of the first record of the current MANIFEST.
func (s *Set) FirstRecordSum() uint32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.firstRecordSum
}

// LastSeq returns the recorded last sequence number: all up to it is in tables.
func (s *Set) LastSeq() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lastSeq
}

// LogNum returns the recorded number below which logs are not needed.
func (s *Set) LogNum() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.logNum
}

// Begin applies edit, writes the result as the snapshot of a new MANIFEST, and makes CURRENT name it. Every opening for
// writing begins with it: edits are never appended to a recovered MANIFEST. install is as in Apply.
func (s *Set) Begin(edit *Edit, install func(*version.Version)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failOnPanic(func() error { return s.beginLocked(edit, install) })
}

func (s *Set) beginLocked(edit *Edit, install func(*version.Version)) error {
	next, err := s.prepare(edit)
	if err != nil {
		return err
	}
	err = s.newManifest(next)
	s.buf = nil // an edit is far smaller than a snapshot
	if err != nil {
		s.err = err
		next.Discard()
		return err
	}
	s.publish(next, install)
	return nil
}

// Apply records edit in the MANIFEST, syncs it, and makes the resulting version the current one. If install is not nil,
// it is called when nothing can fail any more, and before the old version is released.
//
// After an error, IsUncertain reports whether the edit may have taken effect all the same. If so, the MANIFEST accepts
// no more edits, and every later Apply returns that error. After a full disk, however, the next Apply starts a new
// MANIFEST, and once that is current nothing is uncertain any more.
func (s *Set) Apply(edit *Edit, install func(*version.Version)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.verify(); err != nil {
		return err
	}
	return s.failOnPanic(func() error { return s.applyLocked(edit, install) })
}

// Verify returns an error if the Set accepts no edits any more. It looks whether the directory, the MANIFEST and
// CURRENT are still those of the Set; if not, that is final.
func (s *Set) Verify() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.verify()
}

// verify is Verify. The caller holds s.mu.
func (s *Set) verify() error {
	if s.err == nil && s.opts.Verify != nil {
		s.err = s.opts.Verify()
	}
	if s.err == nil && s.log != nil {
		size := s.log.Size()
		if s.full != nil { // less may have been written
			size = 0
		}
		s.err = errors.CombineErrors(s.own[0].Verify(size), s.own[1].Verify(0))
		s.err = errors.Wrap(s.err, "sievedb: the MANIFEST cannot be written; Repair can rebuild it from the tables and logs that are left")
	}
	return s.err
}

// Between calls f while no edit is being written. f must not use the Set, except for NewFileNum.
func (s *Set) Between(f func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return f()
}

func (s *Set) applyLocked(edit *Edit, install func(*version.Version)) error {
	before := [2]uint64{s.logNum, s.lastSeq}
	next, err := s.prepare(edit)
	if err != nil {
		return err
	}
	s.buf = edit.Encode(s.buf[:0])
	marked := len(s.current.Load().Values) > 0
	if s.full != nil || len(next.Values) > 0 != marked || s.log.Size() >= s.rollSize() || s.aboveLimit(s.log.Size()+2*int64(len(s.buf))) {
		err = s.newManifest(next)
	} else {
		err = s.append()
	}
	if cap(s.buf) > maxKeptBuffer {
		s.buf = nil
	}
	if err != nil {
		s.logNum, s.lastSeq = before[0], before[1]
		next.Discard()
		return err
	}
	s.publish(next, install)
	return nil
}

// maxKeptBuffer limits the buffer that is kept for the next edit, in bytes: a snapshot of very many
// tables, or an edit with long keys, needs far more than others.
const maxKeptBuffer = 256 << 10

// failOnPanic calls f. If the comparer or the file system panics in it, the content of the MANIFEST is
// unknown, so no more edits are accepted. The panic continues. The caller holds s.mu.
func (s *Set) failOnPanic(f func() error) (err error) {
	returned := false
	defer func() {
		if !returned {
			s.err = uncertain(errors.New("sievedb: a panic interrupted an edit of the MANIFEST"))
		}
	}()
	err = f()
	returned = true
	return err
}

// rollSize is the size of the MANIFEST from which the next edit goes to a new one, which begins with a
// snapshot of the version. It is at least twice the size of the last snapshot, so that the bytes
// written stay in proportion to the edits. It is well below the limit, so that an edit always fits.
func (s *Set) rollSize() int64 {
	size := max(s.opts.MaxManifestSize, 2*s.snapshotSize)
	if limit := s.opts.ReadLimit; limit > 0 {
		size = min(size, limit-limit/4)
	}
	return size
}

func (s *Set) aboveLimit(size int64) bool { return s.opts.ReadLimit > 0 && size > s.opts.ReadLimit }

// append durably writes the edit in buf to the current MANIFEST. After a failure no edits go to that
// file: bytes after a failed append read as damage, and a second sync proves nothing.
func (s *Set) append() error {
	if len(s.buf) > s.maxRecord { // nothing is written, and other edits are still accepted
		return errors.Newf("sievedb: a version edit of %d bytes, mostly keys of tables; "+
			"at most %d bytes fit in a record of the MANIFEST", len(s.buf), s.maxRecord)
	}
	err := errors.Wrap(s.log.WriteRecord(s.buf), "sievedb: writing the MANIFEST")
	if err == nil {
		err = errors.Wrap(s.log.Sync(), "sievedb: syncing the MANIFEST")
	}
	if err == nil {
		return nil
	}
	err = uncertain(err)
	if base.IsNoSpace(err) {
		s.full = err
	} else {
		s.err = err
	}
	return err
}

// prepare adds the numbers that every edit has, and returns the resulting version. A failure changes nothing.
func (s *Set) prepare(edit *Edit) (*version.Version, error) {
	if !edit.LogNum.Set {
		edit.LogNum = Num(s.logNum)
	}
	edit.LastSeq = Num(max(s.lastSeq, edit.LastSeq.Value))
	edit.PrevLogNum = Num(0)
	edit.NextFileNum = Num(s.nextFileNum.Load())
	s.advanceTime()
	edit.CompactPointers = s.recorded.appendPointer(edit.CompactPointers)
	if s.unrecorded && s.recorded.isZero() {
		edit.CompactPointers = append(edit.CompactPointers, recordedNothing())
	}
	current := s.current.Load()
	change := edit.Change()
	if err := change.DropUnused(current); err != nil {
		return nil, err
	}
	edit.Deleted, edit.Added = change.Deleted, change.Added
	next, err := current.Apply(change)
	if err == nil {
		s.logNum, s.lastSeq = edit.LogNum.Value, edit.LastSeq.Value
	}
	return next, err
}

func (s *Set) publish(next *version.Version, install func(*version.Version)) {
	old := s.current.Swap(next)
	if install != nil {
		install(next)
	}
	old.Unref()
}

// newManifest writes v as the first record of a new MANIFEST, syncs it, makes CURRENT name it, and removes the old one.
// After an error that is not uncertain, the old MANIFEST is still current, and the new file is removed.
func (s *Set) newManifest(v *version.Version) error {
	num := s.NewFileNum()
	log, err := s.createManifest(num, v)
	if err != nil {
		return errors.Wrap(err, "sievedb: starting a new MANIFEST")
	}
	if err := writeCurrent(s.opts.FS, s.opts.Dir, num); err != nil {
		err = errors.Wrap(errors.CombineErrors(err, log.Close()), "sievedb: starting a new MANIFEST")
		if IsUncertain(err) {
			s.err = err
		} else {
			s.removeManifest(num)
		}
		return err
	}
	oldNum, old := s.manifestNum, s.log
	s.log, s.manifestNum, s.snapshotSize, s.full, s.unrecorded = log, num, log.Size(), nil, false
	for i, name := range []string{base.FileName(base.FileManifest, num), base.CurrentName} {
		s.own[i] = NewOwnFile(s.opts.FS, filepath.Join(s.opts.Dir, name))
	}
	// CURRENT is not open, and exFAT and others may number such a file anew.
	s.own[1].info = nil
	s.firstRecordSum = util.CRC32C(s.buf) // createManifest left the snapshot in buf
	if old == nil {
		return nil
	}
	// The new MANIFEST is current: errors of the old one do not matter.
	_ = old.Close()
	s.removeManifest(oldNum)
	return nil
}

// createManifest writes a MANIFEST that CURRENT does not name yet. After an error it is removed.
func (s *Set) createManifest(num uint64, v *version.Version) (*wal.Writer, error) {
	s.advanceTime()
	state := Snapshot{Version: v, LogNum: s.logNum, LastSeq: s.lastSeq, NextFileNum: s.nextFileNum.Load(), Recorded: s.recorded}
	snapshot := state.edit(s.opts.Cmp.Name, s.opts.LogsElsewhere)
	f, err := s.opts.FS.Create(filepath.Join(s.opts.Dir, base.FileName(base.FileManifest, num)))
	if err != nil {
		return nil, err
	}
	log := wal.NewWriter(f)
	s.buf = snapshot.Encode(s.buf[:0])
	err = log.WriteRecord(s.buf)
	if err == nil && s.aboveLimit(log.Size()) {
		err = errors.Newf("the MANIFEST of %d tables has %d bytes, but Options.Limits.ManifestRead allows %d; raise it",
			len(snapshot.Added), log.Size(), s.opts.ReadLimit)
	}
	if err == nil {
		err = log.Sync()
	}
	if err == nil {
		err = s.opts.FS.SyncDir(s.opts.Dir)
	}
	if err != nil {
		err = errors.CombineErrors(err, log.Close())
		s.removeManifest(num)
		return nil, err
	}
	return log, nil
}

// removeManifest removes a MANIFEST that is not current. If that fails, the next opening removes the superfluous file.
func (s *Set) removeManifest(num uint64) {
	_ = s.opts.FS.Remove(filepath.Join(s.opts.Dir, base.FileName(base.FileManifest, num)))
}

// Close closes the MANIFEST. Later edits return ErrClosed. The current version stays: its readers may still use it.
func (s *Set) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = base.ErrClosed
	}
	if s.log == nil {
		return nil
	}
	err := s.log.Close()
	s.log = nil
	return err
}

// Sound reports whether the current MANIFEST contains each applied edit and nothing else: no append to
// it and no sync of it has failed.
func (s *Set) Sound() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err == nil && s.full == nil
}

// Failed reports whether edits are not accepted any more: a write failed, and every later Apply will fail.
func (s *Set) Failed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err != nil
}
