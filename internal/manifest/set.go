package manifest

import (
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/errors"
	"github.com/sievedb/sievedb/internal/wal"
	"github.com/sievedb/sievedb/util"
	"github.com/sievedb/sievedb/vfs"
)

// SetOptions say where a Set lives and whom it tells.
type SetOptions struct {
	FS              vfs.FS
	Dir             string
	Cmp             *base.Comparer
	MaxManifestSize int64 // bytes after which Apply starts a new MANIFEST; see rollSize
	// ReadLimit is the size in bytes above which Load refuses a MANIFEST, and Begin
	// and Apply refuse to make one; 0: none.
	ReadLimit int64
	// MaxTables is how many tables a MANIFEST may name to be loaded; 0: any number. A
	// few more than the directory holds, since whoever looks for each of them tells
	// better which is missing.
	MaxTables int
	// Obsolete is handed the files that no version names any more, with the level
	// that each was last on, in the order in which to remove them: those with the
	// oldest entries first, so that what a crash leaves of the inputs of a compaction
	// holds the newest version of each key that it holds at all. It is called from
	// whoever gave up the last reference, and must not block.
	Obsolete func([]LevelFile)
	// NewHandle makes the FileMeta.Handle of a file that comes into a version without
	// one; nil: none is made.
	NewHandle func() any
}

// Set owns the current version and the MANIFEST. Apply calls follow one
// another; everything else may be called at any time.
type Set struct {
	opts SetOptions
	// maxRecord is wal.MaxRecordSize, but for tests.
	maxRecord int

	nextFileNum atomic.Uint64 // the next number to hand out

	// mu serialises Apply, its input and output included, and guards what follows.
	mu          sync.Mutex
	log         *wal.Writer
	begunSize   int64  // of log, when its snapshot was written
	begunSum    uint32 // checksum of that snapshot's record
	manifestNum uint64
	logNum      uint64
	lastSeq     uint64 // as recorded
	buf         []byte
	// full is why the MANIFEST in force takes no more edits although another one
	// may: the disk was full. The next edit goes to a new one.
	full error
	err  error // the first failure of another kind: no edit is taken any more

	current atomic.Pointer[Version]
}

// New returns the Set of an empty database. Nothing is written before Begin.
func New(o SetOptions) *Set {
	s := &Set{opts: o, maxRecord: wal.MaxRecordSize}
	s.nextFileNum.Store(1)
	v := &Version{Cmp: o.Cmp, set: s}
	v.refs.Store(1)
	s.current.Store(v)
	return s
}

// Current returns the newest version. Whoever keeps it beyond the moment takes
// a reference.
func (s *Set) Current() *Version { return s.current.Load() }

// RefCurrent returns the newest version with a reference taken.
func (s *Set) RefCurrent() *Version {
	for {
		if v := s.current.Load(); v.TryRef() {
			return v
		}
	}
}

// NewFileNum hands out a file number that was never used.
func (s *Set) NewFileNum() uint64 { return s.nextFileNum.Add(1) - 1 }

// MarkUsed makes sure that num, found in the directory, is never handed out.
func (s *Set) MarkUsed(num uint64) {
	for {
		next := s.nextFileNum.Load()
		if num < next || s.nextFileNum.CompareAndSwap(next, num+1) {
			return
		}
	}
}

// ManifestNum returns the number of the MANIFEST in force.
func (s *Set) ManifestNum() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.manifestNum
}

// BegunSum returns the checksum of the first record of the MANIFEST in force.
func (s *Set) BegunSum() uint32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.begunSum
}

// LogNum returns the number below which logs are not needed, as recorded.
func (s *Set) LogNum() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.logNum
}

// Begin writes edit's outcome as the snapshot of a new MANIFEST and points
// CURRENT at it. Every opening for writing begins so: a MANIFEST that was
// recovered is never appended to. install is as in Apply.
func (s *Set) Begin(edit *Edit, install func(*Version)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.endIfPanics(func() error { return s.beginLocked(edit, install) })
}

func (s *Set) beginLocked(edit *Edit, install func(*Version)) error {
	next, err := s.prepare(edit)
	if err != nil {
		return err
	}
	err = s.newManifest(next)
	s.buf = nil // one edit is far smaller than a snapshot
	if err != nil {
		s.err = err
		return err
	}
	s.publish(next, install)
	return nil
}

// Apply records edit in the MANIFEST, syncs it, and makes the version that it
// leads to the current one. install, if not nil, runs when nothing can fail any
// more and before the old version is given up.
//
// After an error IsUncertain tells whether the edit may be in force all the same.
// If it may, the MANIFEST is finished, and every later Apply returns that error;
// unless the disk was full: then the next Apply begins a new MANIFEST, and once
// that is in force nothing is uncertain any more.
func (s *Set) Apply(edit *Edit, install func(*Version)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	return s.endIfPanics(func() error { return s.applyLocked(edit, install) })
}

func (s *Set) applyLocked(edit *Edit, install func(*Version)) error {
	before := [2]uint64{s.logNum, s.lastSeq}
	next, err := s.prepare(edit)
	if err != nil {
		return err
	}
	s.buf = edit.Encode(s.buf[:0])
	if s.full != nil || s.log.Size() >= s.rollSize() || s.aboveLimit(s.log.Size()+2*int64(len(s.buf))) {
		err = s.newManifest(next)
	} else {
		err = s.append()
	}
	if cap(s.buf) > maxKeptBuffer {
		s.buf = nil
	}
	if err != nil {
		s.logNum, s.lastSeq = before[0], before[1]
		next.discard()
		return err
	}
	s.publish(next, install)
	return nil
}

// maxKeptBuffer bounds the buffer that is kept for the next edit, in bytes: a snapshot of
// very many tables, or an edit with long keys, takes far more than others.
const maxKeptBuffer = 256 << 10

// endIfPanics calls f. If the comparer or the file system panics in it, nobody knows what the
// MANIFEST holds, so that no edit is taken any more. The panic goes on. s.mu is held.
func (s *Set) endIfPanics(f func() error) (err error) {
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

// rollSize is the size from which the next edit goes to a new MANIFEST. That
// begins with a snapshot of the version, so a large version waits until as much
// again was appended: what is written stays in proportion to the edits. Well below
// the limit, an edit always fits.
func (s *Set) rollSize() int64 {
	size := max(s.opts.MaxManifestSize, 2*s.begunSize)
	if limit := s.opts.ReadLimit; limit > 0 {
		size = min(size, limit-limit/4)
	}
	return size
}

func (s *Set) aboveLimit(size int64) bool { return s.opts.ReadLimit > 0 && size > s.opts.ReadLimit }

// append writes the edit in buf to the MANIFEST in force, durably. A failure is
// final for that file: what stands behind a failed append reads as damage, and a
// second sync proves nothing.
func (s *Set) append() error {
	if len(s.buf) > s.maxRecord { // nothing is written, and other edits go on
		return errors.Newf("sievedb: a version edit of %d bytes, most of them keys of tables; at most %d fit a record of the MANIFEST", len(s.buf), s.maxRecord)
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

// prepare completes edit with the numbers that every edit carries and returns
// the version that it leads to. A failure here leaves everything as it was.
func (s *Set) prepare(edit *Edit) (*Version, error) {
	if !edit.LogNum.Set {
		edit.LogNum = Num(s.logNum)
	}
	edit.LastSeq = Num(max(s.lastSeq, edit.LastSeq.Value))
	edit.PrevLogNum = Num(0)
	edit.NextFileNum = Num(s.nextFileNum.Load())
	next, err := s.current.Load().Apply(edit)
	if err == nil {
		s.logNum, s.lastSeq = edit.LogNum.Value, edit.LastSeq.Value
	}
	return next, err
}

func (s *Set) publish(next *Version, install func(*Version)) {
	old := s.current.Swap(next)
	if install != nil {
		install(next)
	}
	old.Unref()
}

// newManifest writes v as the first record of a new MANIFEST, makes that
// durable, then points CURRENT at it and removes the old one. An error that is
// not uncertain leaves the old one in force, and no file behind.
func (s *Set) newManifest(v *Version) error {
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
	s.log, s.manifestNum, s.begunSize, s.full = log, num, log.Size(), nil
	s.begunSum = util.CRC32C(s.buf) // createManifest has left the snapshot there
	if old == nil {
		return nil
	}
	// The new MANIFEST is in force: what happens to the old one does not matter.
	_ = old.Close()
	s.removeManifest(oldNum)
	return nil
}

// createManifest writes a MANIFEST that nothing names yet. After an error it is
// gone.
func (s *Set) createManifest(num uint64, v *Version) (*wal.Writer, error) {
	snapshot := &Edit{
		Comparer: s.opts.Cmp.Name, LogNum: Num(s.logNum), PrevLogNum: Num(0),
		NextFileNum: Num(s.nextFileNum.Load()), LastSeq: Num(s.lastSeq),
	}
	v.Files(func(level int, f *FileMeta) {
		snapshot.Added = append(snapshot.Added, LevelFile{Level: level, File: f})
	})
	f, err := s.opts.FS.Create(filepath.Join(s.opts.Dir, base.FileName(base.FileManifest, num)))
	if err != nil {
		return nil, err
	}
	log := wal.NewWriter(f)
	s.buf = snapshot.Encode(s.buf[:0])
	err = log.WriteRecord(s.buf)
	if err == nil && s.aboveLimit(log.Size()) {
		err = errors.Newf("the MANIFEST of %d tables takes %d bytes, and Options.Limits.ManifestRead allows to read %d: raise it", len(snapshot.Added), log.Size(), s.opts.ReadLimit)
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

// removeManifest removes a MANIFEST that is not in force. If that fails it is a
// file too many, which the next opening removes.
func (s *Set) removeManifest(num uint64) {
	_ = s.opts.FS.Remove(filepath.Join(s.opts.Dir, base.FileName(base.FileManifest, num)))
}

// Close closes the MANIFEST and gives up the current version.
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

// obsolete passes files on.
func (s *Set) obsolete(files []LevelFile) {
	if s.opts.Obsolete != nil {
		s.opts.Obsolete(files)
	}
}

// Sound reports whether the MANIFEST in force holds each edit that was applied
// and nothing else: no append to it and no sync of it has failed.
func (s *Set) Sound() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err == nil && s.full == nil
}

// Failed reports whether edits are not taken any more: a write failed, and every
// later Apply will.
func (s *Set) Failed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err != nil
}
