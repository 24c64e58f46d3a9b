package backup

import (
	"io/fs"
	"path/filepath"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/errors"
	"github.com/sievedb/sievedb/vfs"
)

// lockSuffix ends the name of the file that is locked while a backup uses its checkpoint.
const lockSuffix = ".lock"

// removeCheckpoints removes the checkpoints of backups that were interrupted. Those of running ones are
// locked.
func removeCheckpoints(fsys vfs.FS, parent, prefix string) error {
	names, err := fsys.List(parent)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	for _, name := range names {
		if len(name) < len(prefix)+len(idLayout) || name[:len(prefix)] != prefix {
			continue
		}
		id := idPattern.FindString(name)
		if id == "" || name[:len(prefix)+len(id)] != prefix+id || seen[id] {
			continue
		}
		seen[id] = true
		dir := filepath.Join(parent, prefix+id)
		lock, err := fsys.Lock(dir+lockSuffix, false)
		if errors.Is(err, base.ErrLocked) {
			continue
		}
		if err == nil {
			err = errors.CombineErrors(removeCheckpoint(fsys, dir), vfs.RemoveLock(fsys, dir+lockSuffix, lock))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// removeCheckpoint removes a checkpoint, complete or not.
func removeCheckpoint(fsys vfs.FS, dir string) error {
	return errors.CombineErrors(removeFiles(fsys, dir), removeFiles(fsys, dir+".checkpoint"))
}

// removeFiles removes a directory with the files of a database. A missing one is no error.
func removeFiles(fsys vfs.FS, dir string) error {
	names, err := fsys.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
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
