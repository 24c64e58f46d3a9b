package dbdir

import (
	"crypto/rand"
	"encoding/hex"
	"io/fs"
	"path/filepath"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/vfs"
)

// LogDir says where the logs of a database are. It is for one goroutine.
type LogDir struct {
	// FS shows the logs as files of the database's directory.
	FS vfs.FS

	plain     vfs.FS
	dir, logs string
	shown     *logFS            // FS, nil if the logs are in dir
	marked    bool              // dir has a LOGDIR, perhaps of an abandoned directory
	mark      mark              // its id is empty if there is none yet
	recorded  string            // the directory that LOGDIR names, empty for none
	given     bool              // the caller has named the directory of the logs
	owner     string            // the directory of the database according to LOGS
	lock      *manifest.DirLock // of logs

	begun     bool     // Begin has made FS show the other directory
	madeDirs  []string // by Begin
	madeMark  bool     // LOGS is that of this Begin
	abandoned mark     // what LOGDIR was before Begin; its id is empty for none
}

// findLogs finds out where the logs of the database in dir are. wanted is the directory of the logs: empty
// for what the database recorded, and dir itself to bring the logs back. It refuses directories that
// do not belong together, and writes nothing. Both paths are absolute.
func findLogs(fsys vfs.FS, dir, wanted string) (*LogDir, error) {
	dir = filepath.Clean(dir)
	back := wanted != "" && sameDir(fsys, dir, wanted)
	p := &LogDir{FS: fsys, plain: fsys, dir: dir, given: wanted != "" && !back}
	m, ok, err := readMark(fsys, filepath.Join(dir, markInDir))
	if errors.Is(err, base.ErrCorruption) {
		err = &lostError{err}
	}
	if err != nil {
		return nil, err
	}
	p.marked = ok
	if p.recorded = m.other; p.recorded != "" {
		p.mark = m
	} else {
		p.abandoned = m
	}
	switch {
	case p.given:
		p.logs = filepath.Clean(wanted)
	case p.recorded == "":
		return p, nil
	default:
		p.logs = p.recorded
	}
	if abs, err := fsys.Abs(p.logs); err != nil || filepath.Clean(abs) != p.logs {
		return nil, errors.CombineErrors(err, &lostError{damagedMark(filepath.Join(dir, markInDir))})
	}
	if sameDir(fsys, dir, p.logs) {
		return nil, &lostError{errors.Newf("sievedb: %s and %s, the directory of the logs, are the same; pass Options.LogDir", dir, p.logs)}
	}
	if err := p.compare(); err != nil {
		return nil, err
	}
	p.shown = &logFS{FS: fsys, dir: dir, logs: p.logs, back: back}
	p.FS = p.shown
	if p.recorded != "" {
		p.shown.active.Store(true)
	}
	return p, nil
}

// Elsewhere reports whether new logs are created in another directory.
func (p *LogDir) Elsewhere() bool { return p.shown != nil && !p.shown.back }

// Dir returns the other directory in which new logs are created, or "".
func (p *LogDir) Dir() string {
	if !p.Elsewhere() {
		return ""
	}
	return p.logs
}

// Marked reports whether the MANIFEST may record that logs are elsewhere.
func (p *LogDir) Marked() bool { return p.marked }

// Found reports whether there are logs in another directory now.
func (p *LogDir) Found() bool { return p.shown != nil && p.shown.active.Load() }

// Same reports whether both LogDirs of one database have found its logs in the same directories.
func (p *LogDir) Same(q *LogDir) bool {
	return q != nil && p.Found() == q.Found() && p.logs == q.logs && p.marked == q.marked
}

// Lock locks the directory of the logs, if the database has one. The caller has the lock of the database.
func (p *LogDir) Lock(shared bool) (err error) {
	if !p.Found() || p.lock != nil {
		return nil
	}
	lock, err := manifest.LockDir(p.plain, p.logs, shared)
	if err != nil {
		return err
	}
	p.lock = lock
	if err = p.compare(); err != nil { // a copy of the database may have used the logs since
		err = errors.CombineErrors(err, p.Close())
	}
	return err
}

// Close releases the lock. It may be called more than once.
func (p *LogDir) Close() error {
	lock := p.lock
	if lock == nil {
		return nil
	}
	p.lock = nil
	return lock.Close()
}

// Begin marks both directories durably, and makes that of the logs, so that logs can be created there.
// The caller has an exclusive lock of the database. After an error it removes what it made.
func (p *LogDir) Begin() error {
	if !p.Elsewhere() {
		return nil
	}
	err := p.begin()
	if err != nil {
		err = errors.CombineErrors(err, p.Undo())
	}
	return err
}

func (p *LogDir) begin() (err error) {
	if p.madeDirs, err = makeDirs(p.plain, p.logs); err != nil {
		return err
	}
	if p.lock == nil {
		lock, err := manifest.LockDir(p.plain, p.logs, false)
		if err != nil {
			return err
		}
		p.lock = lock
		if err := p.compare(); err != nil { // another database may have begun since
			return err
		}
	}
	begun := !p.shown.active.Load()
	p.begun = begun
	if p.madeMark = p.mark.id == ""; p.madeMark {
		p.mark.id = newID()
	}
	if err := p.write(p.logs, markInLogs, p.dir); err != nil {
		return err
	}
	// An earlier Begin may have failed before what it made was durable.
	for d := p.logs; begun; d = filepath.Dir(d) {
		if err := p.plain.SyncDir(d); err != nil && !errors.Is(err, fs.ErrPermission) {
			return err
		}
		if filepath.Dir(d) == d {
			break
		}
	}
	if err := p.write(p.dir, markInDir, p.logs); err != nil {
		return err
	}
	p.marked = true
	p.shown.active.Store(true)
	return nil
}

// write writes a mark, unless the directory has it already.
func (p *LogDir) write(dir, name, other string) error {
	path, m := filepath.Join(dir, name), mark{p.mark.id, other}
	if present, ok, err := readMark(p.plain, path); err != nil || ok && present == m {
		return errors.CombineErrors(err, p.plain.SyncDir(dir))
	}
	return m.write(p.plain, path)
}

// Undo removes what Begin made. The caller has removed its log.
func (p *LogDir) Undo() (err error) {
	if p.begun {
		p.begun, p.marked = false, p.abandoned.id != ""
		p.shown.active.Store(false)
		err = p.unmark(p.madeMark, p.abandoned)
	} else if len(p.madeDirs) > 0 {
		err = p.removeLock()
	}
	removeDirs(p.plain, p.madeDirs)
	p.madeDirs = nil
	return err
}

// Finish is called when a MANIFEST is in force that needs no earlier log. If the logs are not to be
// elsewhere any more, it removes the marks.
func (p *LogDir) Finish() error {
	if !p.marked || p.Elsewhere() {
		return nil
	}
	if p.shown != nil {
		p.shown.active.Store(false)
	}
	p.marked = false
	return p.unmark(true, mark{})
}

// unmark removes the marks and the lock, if there is no log left. That is durable before, or a log could come back
// without a mark. LOGDIR becomes instead, if that is a mark, and LOGS stays if it is not ours.
func (p *LogDir) unmark(ours bool, instead mark) error {
	if p.shown != nil {
		logs, err := logsIn(p.plain, p.logs)
		if err == nil && len(logs) > 0 {
			err = errors.Newf("sievedb: %s in %s could not be removed", logs[0], p.logs)
		}
		if err == nil {
			err = p.plain.SyncDir(p.logs)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	path := filepath.Join(p.dir, markInDir)
	var err error
	if instead.id != "" {
		err = instead.write(p.plain, path)
	} else if err = remove(p.plain, path); err == nil {
		err = p.plain.SyncDir(p.dir)
	}
	if err != nil || p.shown == nil {
		return err
	}
	if ours {
		err = remove(p.plain, filepath.Join(p.logs, markInLogs))
	}
	err = errors.CombineErrors(err, p.removeLock())
	if err == nil {
		err = p.plain.SyncDir(p.logs)
	}
	return err
}

// removeLock releases the lock, if there is one, and removes its file.
func (p *LogDir) removeLock() error {
	lock := p.lock
	if lock == nil {
		return nil
	}
	p.lock = nil
	return lock.Remove()
}

// Destroy removes the marks when all files of the database have been removed, and the directory of the
// logs if it is empty then.
func (p *LogDir) Destroy() error {
	if !p.marked {
		return nil
	}
	if p.shown != nil {
		p.shown.active.Store(false)
	}
	err := p.unmark(true, mark{})
	if p.shown != nil {
		if rest, lerr := p.plain.List(p.logs); lerr == nil && len(rest) == 0 {
			_ = p.plain.Remove(p.logs) // an empty directory that remains does no harm
		}
	}
	return err
}

func remove(fsys vfs.FS, path string) error { return ignoreMissing(fsys.Remove(path)) }

// logsHere returns a LogDir for logs in the directory of the database, whatever a mark in it says.
func logsHere(fsys vfs.FS, dir string) *LogDir {
	return &LogDir{FS: fsys, plain: fsys, dir: dir, marked: true}
}

// recordedLogs returns the directory of the logs that the database has recorded, empty for none.
func recordedLogs(fsys vfs.FS, dir string) (logs string, err error) {
	m, _, err := readMark(fsys, filepath.Join(dir, markInDir))
	return m.other, err
}

// abandonLogs records that the logs in the other directory are lost, or that it is unknown, whatever LOGDIR says.
func abandonLogs(fsys vfs.FS, dir string) error {
	path := filepath.Join(dir, markInDir)
	m, ok, err := readMark(fsys, path)
	if err != nil && !errors.Is(err, base.ErrCorruption) {
		return err
	}
	if !ok {
		m.id = newID()
	}
	return mark{m.id, ""}.write(fsys, path)
}

// newID returns a random identity.
func newID() string {
	var id [16]byte
	_, _ = rand.Read(id[:]) // it never fails
	return hex.EncodeToString(id[:])
}
