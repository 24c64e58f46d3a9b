package manifest

import (
	"io"
	"io/fs"
	"path/filepath"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/internal/disk/wal"
	"github.com/sievedb/sievedb/vfs"
)

// Tail reads the MANIFEST of a database that another process may have open, and then each edit that is added. It
// changes nothing. It is used by one goroutine at a time; its Set, as far as that is read only, by any.
type Tail struct {
	set  *Set
	name string   // of the file; empty: none is open
	file vfs.File // name, open: it can be read when it was removed
	info fs.FileInfo
	log  *wal.Reader
}

// Reading is what a Tail has read: a version and what the MANIFEST records next to it.
type Reading struct {
	Version *version.Version
	// Logs below LogNum are not needed, except PrevLogNum, if it is not 0. LastSeq is the greatest
	// sequence number that an edit recorded or that bounds a table.
	LogNum, PrevLogNum, LastSeq uint64
	Recorded                    Recorded
	// ByGoLevelDB is as in State.
	ByGoLevelDB bool

	nextFileNum uint64
}

// NewTail returns a Tail that has read nothing yet.
func NewTail(o SetOptions) *Tail { return &Tail{set: New(o)} }

// Set returns the set of the published versions. Nothing may be applied to it.
func (t *Tail) Set() *Set { return t.set }

// Name returns the name of the MANIFEST that was read last.
func (t *Tail) Name() string { return t.name }

// Read reads the edits since have, or, if have is nil or CURRENT leads to another MANIFEST, the whole
// MANIFEST. fresh says that it did that: the version then shares nothing with have. If nothing was
// added, it returns have. A new Reading is to be published or discarded.
//
// The last edit may still be being written: it is left for the next call. An error, of which some disappear when the
// writer has finished what it does, changes nothing, except that the next call reads everything.
func (t *Tail) Read(have *Reading) (r *Reading, fresh bool, err error) {
	name, err := readCurrent(t.set.opts.FS, t.set.opts.Dir)
	if err != nil {
		return nil, false, err
	}
	if fresh = have == nil || name != t.name; !fresh {
		fresh, err = t.replaced()
	}
	switch {
	case err != nil:
	case fresh:
		r, err = t.readWhole()
	default:
		r, fresh, err = t.readEdits(have)
	}
	if err != nil {
		_ = t.Close()
	}
	return r, fresh, err
}

// replaced reports whether another file has the MANIFEST's name by now, as after a database was created
// again, or the directory replaced.
func (t *Tail) replaced() (bool, error) {
	info, err := t.set.opts.FS.Lstat(filepath.Join(t.set.opts.Dir, t.name))
	return err == nil && !vfs.SameFile(info, t.info), err
}

// readWhole reads the MANIFEST that CURRENT names.
func (t *Tail) readWhole() (*Reading, error) {
	_ = t.Close()
	o := &t.set.opts
	l, st, err := load(o)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(o.Dir, st.ManifestName)
	if t.file, err = o.FS.Open(path); err != nil {
		return nil, err
	}
	if t.info, err = o.FS.Lstat(path); err != nil {
		return nil, err
	}
	t.name, t.log = st.ManifestName, wal.NewReader(t.file, 0, wal.ReaderOptions{AllowTornEnd: true})
	t.log.Continue(st.Tail.Offset, 0)
	v, err := l.version(version.New(o.Cmp, &t.set.owner))
	if err != nil {
		return nil, base.InFile(err, path, -1)
	}
	r := &Reading{
		Version: v, LogNum: st.LogNum, PrevLogNum: st.PrevLogNum, LastSeq: st.LastSeq, Recorded: st.Recorded,
		ByGoLevelDB: st.ByGoLevelDB, nextFileNum: l.nextFileNum(),
	}
	v.Files(func(_ int, f *version.FileMeta) { r.raiseLastSeq(f) })
	return r, nil
}

// raiseLastSeq makes LastSeq at least the sequence numbers of a table's bounds.
func (r *Reading) raiseLastSeq(f *version.FileMeta) {
	r.LastSeq = max(r.LastSeq, base.Trailer(f.Smallest)>>8, base.Trailer(f.Largest)>>8)
}

// maxEdits is the number of bytes from which on new edits are read with the whole MANIFEST, in two
// passes: decoded edits may need far more memory than their bytes.
const maxEdits = 1 << 20

// readEdits reads what was added to the MANIFEST. fresh is as in Read.
func (t *Tail) readEdits(have *Reading) (r *Reading, fresh bool, err error) {
	path := filepath.Join(t.set.opts.Dir, t.name)
	size, err := t.file.Size()
	if err == nil {
		err = CheckSize(path, size, t.set.opts.ReadLimit)
	}
	if err != nil {
		return nil, false, err
	}
	if size-t.log.End() > maxEdits {
		r, err = t.readWhole()
		return r, true, err
	}
	t.log.Continue(0, size)
	next := *have
	var changes []version.Change
	for {
		record, err := t.log.Next()
		if err == io.EOF {
			break
		}
		var e *Edit
		if err == nil {
			e, err = DecodeEdit(record)
		}
		if err != nil {
			return nil, false, base.InFile(err, path, t.log.Offset())
		}
		next.apply(e)
		changes = append(changes, e.Change())
	}
	if len(changes) == 0 {
		return have, false, nil
	}
	if next.Version, err = have.Version.Apply(changes...); err != nil {
		return nil, false, base.InFile(err, path, -1)
	}
	return &next, false, nil
}

// apply takes the numbers of an edit.
func (r *Reading) apply(e *Edit) {
	for _, n := range []struct {
		into *uint64
		from OptionalNum
	}{{&r.LogNum, e.LogNum}, {&r.PrevLogNum, e.PrevLogNum}, {&r.nextFileNum, e.NextFileNum}} {
		if n.from.Set {
			*n.into = n.from.Value
		}
	}
	r.LastSeq = max(r.LastSeq, e.LastSeq.Value)
	r.ByGoLevelDB = r.ByGoLevelDB && !e.PrevLogNum.Set
	for _, a := range e.Added {
		r.raiseLastSeq(a.File)
	}
	r.Recorded.Apply(e)
}

// Discard releases a reading that is not published.
func (r *Reading) Discard() { r.Version.Discard() }

// Publish makes the version of r the current one of the set. install is as in Set.Apply.
func (t *Tail) Publish(r *Reading, install func(*version.Version)) {
	s := t.set
	s.mu.Lock()
	s.logNum, s.lastSeq, s.recorded = r.LogNum, r.LastSeq, r.Recorded
	s.nextFileNum.Store(r.nextFileNum)
	s.mu.Unlock()
	s.publish(r.Version, install)
}

// Unread is what a Tail has not read.
type Unread struct {
	Bytes   int64  // of whole edits
	LastSeq uint64 // the greatest sequence number that they record or that bounds a table of theirs
	// Replaced says that CURRENT leads to another MANIFEST by now, or that the last Read failed: everything is
	// unread. LogNum is the oldest log that is needed then.
	Replaced bool
	LogNum   uint64
}

// Unread returns what has been added since the last Read. Damage to added edits is left to Read.
func (t *Tail) Unread() (u Unread, err error) {
	o := &t.set.opts
	name, err := readCurrent(o.FS, o.Dir)
	if err != nil {
		return u, err
	}
	if u.Replaced = name != t.name; !u.Replaced {
		u.Replaced, err = t.replaced()
	}
	switch {
	case err != nil:
		return u, err
	case u.Replaced:
		return u, u.measureWhole(o)
	}
	size, err := t.file.Size()
	if err != nil {
		return u, err
	}
	log := wal.NewReader(t.file, 0, wal.ReaderOptions{AllowTornEnd: true})
	log.Continue(t.log.End(), size)
	var r Reading
	for {
		record, err := log.Next()
		if err != nil {
			u.Bytes, u.LastSeq = log.End()-t.log.End(), r.LastSeq
			if err == io.EOF || base.IsUnreadable(err) { // Read reports it
				err = nil
			}
			return u, err
		}
		if e, err := DecodeEdit(record); err == nil {
			r.apply(e)
		}
	}
}

// measureWhole is Unread for the MANIFEST that CURRENT names.
func (u *Unread) measureWhole(o *SetOptions) error {
	l, st, err := load(o)
	if err != nil {
		return err
	}
	r := Reading{LastSeq: st.LastSeq}
	for _, e := range l.tables {
		r.raiseLastSeq(e.File)
	}
	u.Bytes, u.LastSeq, u.LogNum = st.Size, r.LastSeq, st.LogNum
	return nil
}

// Close closes the MANIFEST. The published version stays as it is.
func (t *Tail) Close() (err error) {
	if t.file != nil {
		err = t.file.Close()
	}
	t.file, t.log, t.name = nil, nil, ""
	return errors.Wrap(err, "sievedb: closing the MANIFEST of a follower")
}
