package logdir

import (
	"crypto/rand"
	"encoding/hex"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/errors"
	"github.com/sievedb/sievedb/vfs"
)

// A Place says where the logs of a database are. It is for one goroutine.
type Place struct {
	// FS shows the logs as files of the database's directory.
	FS vfs.FS

	plain     vfs.FS
	dir, logs string
	shown     *FS       // FS, nil if the logs are in dir
	marked    bool      // dir has a LOGDIR, perhaps of an abandoned directory
	begun     bool      // the marks are those of this Place
	mark      mark      // its id is empty if there is none yet
	lock      io.Closer // of logs
}

// Find finds out where the logs of the database in dir are. wanted is the directory of the logs: empty
// for what the database recorded, and dir itself to bring the logs back. It refuses directories that
// do not belong together, and writes nothing. Both paths are absolute.
func Find(fsys vfs.FS, dir, wanted string) (*Place, error) {
	if dir = filepath.Clean(dir); wanted != "" {
		wanted = filepath.Clean(wanted)
	}
	p := &Place{FS: fsys, plain: fsys, dir: dir, logs: wanted}
	m, ok, err := read(fsys, filepath.Join(dir, markInDir))
	if err != nil {
		return nil, err
	}
	p.marked = ok
	elsewhere := ok && m.other != ""
	if elsewhere {
		p.mark = m
	}
	back := wanted == dir
	if wanted == "" || back {
		if !elsewhere {
			return p, nil
		}
		p.logs = m.other
	}
	if abs, err := fsys.Abs(p.logs); err != nil || filepath.Clean(abs) != p.logs {
		return nil, errors.CombineErrors(err, damaged(filepath.Join(dir, markInDir)))
	}
	if sameDir(fsys, dir, p.logs) {
		return nil, errors.Newf("sievedb: %s and %s, the directory of the logs, are the same; pass Options.LogDir", dir, p.logs)
	}
	if err := p.compare(elsewhere); err != nil {
		return nil, err
	}
	p.shown = &FS{FS: fsys, dir: dir, logs: p.logs, back: back}
	p.FS = p.shown
	if elsewhere {
		p.shown.active.Store(true)
	}
	return p, nil
}

// sameDir reports whether both paths lead to one directory.
func sameDir(fsys vfs.FS, a, b string) bool {
	if a == b {
		return true
	}
	first, err := fsys.Stat(a)
	if err != nil {
		return false
	}
	second, err := fsys.Stat(b)
	return err == nil && os.SameFile(first, second)
}

// compare returns an error unless the directory of the logs belongs to the database, or to none.
// elsewhere says that the database has recorded one.
func (p *Place) compare(elsewhere bool) error {
	there, found, err := read(p.plain, filepath.Join(p.logs, markInLogs))
	if err != nil {
		return err
	}
	if elsewhere {
		if !found || there.id != p.mark.id {
			return errors.Newf("sievedb: %s does not have the logs of the database in %s, which were in %s; pass the directory that has them as "+
				"Options.LogDir, or, if they are lost, repair the database with its own directory as Options.LogDir", p.logs, p.dir, p.mark.other)
		}
		return p.refuseCopy(there)
	}
	if found && there.other != p.dir {
		return errors.Newf("sievedb: Options.LogDir, %s, has the logs of another database, that in %s; choose a directory for each", p.logs, there.other)
	}
	// There is no log yet if a crash came between the marks.
	logs, err := logsIn(p.plain, p.logs)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if len(logs) > 0 {
		return errors.Newf("sievedb: Options.LogDir, %s, has logs already, for example %s, and %s has no LOGDIR that says that they belong to it; "+
			"choose an empty directory, or write LOGDIR again as a copy of LOGS", p.logs, logs[0], p.dir)
	}
	p.mark.id = there.id
	return nil
}

// refuseCopy returns an error if the database is a copy of the one that the directory of the logs
// belongs to.
func (p *Place) refuseCopy(there mark) error {
	if there.other == "" || sameDir(p.plain, there.other, p.dir) {
		return nil
	}
	m, ok, err := read(p.plain, filepath.Join(there.other, markInDir))
	if err != nil || !ok || m.id != p.mark.id {
		return err // it was moved
	}
	if !sameDir(p.plain, m.other, p.logs) {
		return nil // it was copied with its logs
	}
	return errors.Newf("sievedb: %s is a copy of the database in %s, to which the logs in %s belong; copy the directory of the logs "+
		"as well, and pass its copy as Options.LogDir", p.dir, there.other, p.logs)
}

// Elsewhere reports whether new logs are created in another directory.
func (p *Place) Elsewhere() bool { return p.shown != nil && !p.shown.back }

// Dir returns the other directory in which new logs are created, or "".
func (p *Place) Dir() string {
	if !p.Elsewhere() {
		return ""
	}
	return p.logs
}

// Marked reports whether the MANIFEST may record that logs are elsewhere.
func (p *Place) Marked() bool { return p.marked }

// Lock locks the directory of the logs, if the database has one. The caller has the lock of the database.
func (p *Place) Lock(shared bool) (err error) {
	if p.shown != nil && p.shown.active.Load() && p.lock == nil {
		p.lock, err = p.plain.Lock(filepath.Join(p.logs, base.LockName), shared)
	}
	return err
}

// Close releases the lock. It may be called more than once.
func (p *Place) Close() error {
	lock := p.lock
	if lock == nil {
		return nil
	}
	p.lock = nil
	return lock.Close()
}

// Begin marks both directories durably, and makes that of the logs, so that logs can be created there.
// The caller has an exclusive lock of the database. After an error it removes what it made.
func (p *Place) Begin() error {
	if !p.Elsewhere() {
		return nil
	}
	err := p.begin()
	if err != nil {
		err = errors.CombineErrors(err, p.Undo())
	}
	return err
}

func (p *Place) begin() error {
	if err := vfs.MkdirAllSynced(p.plain, p.logs); err != nil {
		return err
	}
	if p.lock == nil {
		lock, err := p.plain.Lock(filepath.Join(p.logs, base.LockName), false)
		if err != nil {
			return err
		}
		p.lock = lock
	}
	if p.mark.id == "" {
		var id [16]byte
		_, _ = rand.Read(id[:]) // it never fails
		p.mark.id = hex.EncodeToString(id[:])
	}
	begun := !p.shown.active.Load()
	p.begun = begun
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
func (p *Place) write(dir, name, other string) error {
	path, m := filepath.Join(dir, name), mark{p.mark.id, other}
	if present, ok, err := read(p.plain, path); err != nil || ok && present == m {
		return errors.CombineErrors(err, p.plain.SyncDir(dir))
	}
	return m.write(p.plain, path)
}

// Undo removes the marks that Begin wrote, if there were none before. The caller has removed its log.
func (p *Place) Undo() error {
	if !p.begun {
		return nil
	}
	p.begun = false
	p.shown.active.Store(false)
	return p.unmark()
}

// Finish is called when a MANIFEST is in force that needs no earlier log. If the logs are not to be
// elsewhere any more, it removes the marks.
func (p *Place) Finish() error {
	if !p.marked || p.Elsewhere() {
		return nil
	}
	if p.shown != nil {
		p.shown.active.Store(false)
	}
	p.marked = false
	return p.unmark()
}

// unmark removes the marks and the lock, if there is no log left. That is durable before, or a log
// could come back without a mark.
func (p *Place) unmark() error {
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
	err := remove(p.plain, filepath.Join(p.dir, markInDir))
	if err == nil {
		err = p.plain.SyncDir(p.dir)
	}
	if err != nil || p.shown == nil {
		return err
	}
	err = remove(p.plain, filepath.Join(p.logs, markInLogs))
	if lock := p.lock; lock != nil {
		p.lock = nil
		err = errors.CombineErrors(err, vfs.RemoveLock(p.plain, filepath.Join(p.logs, base.LockName), lock))
	}
	if err == nil {
		err = p.plain.SyncDir(p.logs)
	}
	return err
}

// Destroy removes the marks when all files of the database have been removed, and the directory of the
// logs if it is empty then.
func (p *Place) Destroy() error {
	if !p.marked {
		return nil
	}
	if p.shown != nil {
		p.shown.active.Store(false)
	}
	err := p.unmark()
	if p.shown != nil {
		if rest, lerr := p.plain.List(p.logs); lerr == nil && len(rest) == 0 {
			_ = p.plain.Remove(p.logs) // an empty directory that remains does no harm
		}
	}
	return err
}

func remove(fsys vfs.FS, path string) error {
	if err := fsys.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// None returns a Place for logs in the directory of the database, whatever a mark in it says.
func None(fsys vfs.FS, dir string) *Place {
	return &Place{FS: fsys, plain: fsys, dir: dir, marked: true}
}

// Recorded returns the directory of the logs that the database has recorded, empty for none.
func Recorded(fsys vfs.FS, dir string) (logs string, err error) {
	m, _, err := read(fsys, filepath.Join(dir, markInDir))
	return m.other, err
}

// Abandon records that the logs in the other directory are lost.
func Abandon(fsys vfs.FS, dir string) error {
	path := filepath.Join(dir, markInDir)
	m, ok, err := read(fsys, path)
	if err != nil || !ok {
		return err
	}
	return mark{m.id, ""}.write(fsys, path)
}
