package dbdir

import (
	"io/fs"
	"path/filepath"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/vfs"
)

// lostError is the error for logs that are not where the database recorded them, or if it is unknown where that was.
type lostError struct{ cause error }

func (e *lostError) Error() string { return e.cause.Error() }

func (e *lostError) Unwrap() error { return e.cause }

// isLost reports whether err, returned by findLogs, says that the recorded directory is missing, has no
// logs of this database, or is unknown. A directory that cannot be read is not lost.
func isLost(err error) bool {
	var lost *lostError
	return errors.As(err, &lost)
}

// refuseLogs returns an error if dir has the logs of a database in another directory. Such a directory must
// not be opened, repaired or destroyed as a database.
func refuseLogs(fsys vfs.FS, dir string) error {
	path := filepath.Join(dir, markInLogs)
	if _, err := fsys.Lstat(path); err != nil {
		return ignoreMissing(err)
	}
	if _, err := fsys.Lstat(filepath.Join(dir, base.CurrentName)); !errors.Is(err, fs.ErrNotExist) {
		return err // an earlier version let a database be a directory of logs
	}
	m, _, err := readMark(fsys, path)
	if err != nil && !errors.Is(err, base.ErrCorruption) {
		return err
	}
	if m.other == "" {
		m.other = "an unknown directory"
	}
	return errors.Newf("sievedb: %s has the logs of the database in %s, as its file LOGS says, and is no database; use the directory of the "+
		"database; if that does not exist any more, remove the files in %[1]s by hand", dir, m.other)
}

// compare returns an error unless the directory of the logs belongs to the database, or to none.
func (p *LogDir) compare() error {
	there, found, err := readMark(p.plain, filepath.Join(p.logs, markInLogs))
	if err != nil {
		return err
	}
	if p.recorded != "" {
		if !found || there.id != p.mark.id {
			if p.stillRecorded() {
				return errors.Newf("sievedb: Options.LogDir, %s, does not have the logs of the database in %s, which are in %s; to move them, open the database "+
					"with its own directory as Options.LogDir, close it, and open it with %[1]s then, or close it and move all files of %[3]s to %[1]s; "+
					"nothing was changed", p.logs, p.dir, p.recorded)
			}
			return &lostError{errors.Newf("sievedb: %s does not have the logs of the database in %s, which were in %s; pass the directory that has them as "+
				"Options.LogDir, or, if they are lost, repair the database with its own directory as Options.LogDir", p.logs, p.dir, p.recorded)}
		}
		p.owner = there.other
		return p.refuseCopy(there)
	}
	if found && !sameDir(p.plain, there.other, p.dir) {
		return errors.Newf("sievedb: Options.LogDir, %s, has the logs of another database, that in %s; choose a directory for each", p.logs, there.other)
	}
	p.mark.id = there.id
	return p.refuseOccupied()
}

// stillRecorded reports whether the caller has named another directory than the recorded one, which has the logs.
func (p *LogDir) stillRecorded() bool {
	if p.logs == p.recorded {
		return false
	}
	there, ok, err := readMark(p.plain, filepath.Join(p.recorded, markInLogs))
	return err == nil && ok && there.id == p.mark.id
}

// refuseOccupied returns an error if the directory of the logs has files that are not for this database.
// There is no log yet if a crash came between the marks.
func (p *LogDir) refuseOccupied() error {
	names, err := p.plain.List(p.logs)
	if err != nil {
		return ignoreMissing(err)
	}
	log := ""
	for _, name := range names {
		kind, _, ok := base.ParseFileName(name)
		switch {
		case ok && kind == base.FileLog:
			log = name
		case ok && kind != base.FileLock && kind != base.FileInfoLog && kind != base.FileTemp || name == markInDir:
			return errors.Newf("sievedb: Options.LogDir, %s, has a database of its own, for example its file %s; "+
				"choose a directory for the logs of %s alone", p.logs, name, p.dir)
		}
	}
	if log != "" {
		return errors.Newf("sievedb: Options.LogDir, %s, has logs already, for example %s, and %s has no LOGDIR that says that they belong to it; "+
			"choose an empty directory, or write LOGDIR again as a copy of LOGS", p.logs, log, p.dir)
	}
	return nil
}

// refuseCopy returns an error if the database is a copy of the one that the directory of the logs belongs to.
func (p *LogDir) refuseCopy(there mark) error {
	if there.other == "" || sameDir(p.plain, there.other, p.dir) {
		return nil
	}
	m, ok, err := readMark(p.plain, filepath.Join(there.other, markInDir))
	if err != nil || !ok || m.id != p.mark.id {
		return err // it was moved
	}
	if !sameDir(p.plain, m.other, p.logs) {
		return nil // it was copied with its logs
	}
	return &lostError{errors.Newf("sievedb: %s is a copy of the database in %s, to which the logs in %s belong; copy the directory of the logs "+
		"as well, and pass its copy as Options.LogDir", p.dir, there.other, p.logs)}
}

// RefuseToDestroy returns an error if the logs may be needed by another directory: if the database was moved and then
// copied, LOGS does not say which of the two it belongs to. Passing the directory of the logs as wanted decides that.
func (p *LogDir) RefuseToDestroy() error {
	if p.owner == "" || p.given || sameDir(p.plain, p.owner, p.dir) {
		return nil
	}
	return errors.Newf("sievedb: the logs in %s belong to a database in %s; if %s is that database and was moved, pass %[1]s as Options.LogDir to remove "+
		"both; if it is a copy, remove its file LOGDIR first, and the logs stay; nothing was removed", p.logs, p.owner, p.dir)
}

// ignoreMissing returns err, or nil if it says that the file is missing.
func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
