package backup

import (
	"io"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/errors"
	"github.com/sievedb/sievedb/vfs"
)

// lockSuffix ends the name of the file that is locked while a backup uses its checkpoint.
const lockSuffix = ".lock"

// lockAttempts is how many names a backup tries for its checkpoint.
const lockAttempts = 20

// removeCheckpoints removes the checkpoints of backups that were interrupted. Those of running ones are
// locked. A directory without a lock's file is something else, such as a database that was restored under
// such a name.
func removeCheckpoints(fsys vfs.FS, parent, prefix string) error {
	names, err := fsys.List(parent)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, name := range names {
		id := strings.TrimSuffix(strings.TrimPrefix(name, prefix), lockSuffix)
		if err != nil {
			return err
		}
		if !validID(id) || name != prefix+id+lockSuffix {
			continue
		}
		dir := filepath.Join(parent, prefix+id)
		lock, lerr := fsys.Lock(dir+lockSuffix, false)
		if errors.Is(lerr, base.ErrLocked) {
			continue
		}
		if err = lerr; err == nil {
			err = removeCheckpoint(fsys, dir, lock)
		}
	}
	return err
}

// removeCheckpoint removes a checkpoint, complete or not, and then its lock. A power cut leaves no
// checkpoint without a lock.
func removeCheckpoint(fsys vfs.FS, dir string, lock io.Closer) error {
	err := errors.CombineErrors(removeFiles(fsys, dir), removeFiles(fsys, dir+".checkpoint"))
	if err == nil {
		err = fsys.SyncDir(filepath.Dir(dir))
	}
	if err != nil {
		return errors.CombineErrors(err, lock.Close())
	}
	return vfs.RemoveLock(fsys, dir+lockSuffix, lock)
}

// removeFiles removes a directory with the files of a database. A missing one is no error.
func removeFiles(fsys vfs.FS, dir string) error {
	// A symbolic link with such a name may lead to another database.
	if there, err := vfs.PlainDir(fsys, dir); err != nil || !there {
		return err
	}
	names, err := fsys.List(dir)
	for _, name := range names {
		if _, _, ok := base.ParseFileName(name); ok && err == nil {
			err = fsys.Remove(filepath.Join(dir, name))
		}
	}
	if err == nil {
		err = fsys.Remove(dir)
	}
	return err
}
