package checkpoint

import (
	"encoding/hex"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/vfs"
)

// LockSuffix ends the name of the file that is locked while a backup uses its checkpoint.
const LockSuffix = ".lock"

// RemoveLeft removes the checkpoints of backups that were interrupted, in a directory that may be missing. Those of
// running ones are locked. A directory without a lock's file is something else, such as a database that was restored
// under such a name. isName reports whether a backup gives its checkpoint such a name. If parent is outside
// the database, other users may make and exchange directories with such names: what they can change stays there.
func RemoveLeft(fsys vfs.FS, parent string, outside bool, isName func(string) bool) error {
	isOurs := func(name string) bool { return isName(name) && !(outside && mayBeExchanged(fsys, parent, name)) }
	return eachLeft(fsys, parent, isOurs, func(dir string, lock io.Closer) error { return Remove(fsys, dir, lock) })
}

// mayBeExchanged reports whether another user can change a checkpoint in parent or the file of its lock.
func mayBeExchanged(fsys vfs.FS, parent, name string) bool {
	path := filepath.Join(parent, name)
	for _, dir := range []string{path, path + tempSuffix} {
		if _, err := vfs.OwnDir(fsys, dir); errors.Is(err, vfs.ErrNotOwn) {
			return true
		}
	}
	info, err := fsys.Lstat(path + LockSuffix)
	return err == nil && errors.Is(vfs.CheckOwn(path+LockSuffix, info), vfs.ErrNotOwn)
}

// eachLeft calls f for each checkpoint that no backup uses, with its lock.
func eachLeft(fsys vfs.FS, parent string, isName func(string) bool, f func(dir string, lock io.Closer) error) error {
	there, err := vfs.PlainDir(fsys, parent)
	if !there || err != nil {
		return err
	}
	names, err := fsys.List(parent)
	if errors.Is(err, fs.ErrNotExist) { // a backup has ended just now, and removed it
		return nil
	}
	for _, name := range names {
		if err != nil {
			return err
		}
		name, ok := strings.CutSuffix(name, LockSuffix)
		if !ok || !isName(name) {
			continue
		}
		dir := filepath.Join(parent, name)
		lock, lerr := fsys.Lock(dir+LockSuffix, false)
		if errors.Is(lerr, base.ErrLocked) || errors.Is(lerr, fs.ErrNotExist) { // it is used, or it has ended just now
			continue
		}
		if err = lerr; err == nil {
			err = f(dir, lock)
		}
	}
	return err
}

// isBackupID reports whether name is the ID of a backup, as package backup makes them: a time in UTC and 64 random
// bits. The database's own directory for backups may have a database of the user's, which has another name.
func isBackupID(name string) bool {
	const layout = "20060102T150405.000000000Z"
	if len(name) != len(layout)+1+16 || name[len(layout)] != '-' {
		return false
	}
	_, timeErr := time.Parse(layout, name[:len(layout)])
	_, hexErr := hex.DecodeString(name[len(layout)+1:])
	return timeErr == nil && hexErr == nil
}

// RemoveOwn removes what interrupted backups left in the directory of a database, and their directory if it is empty
// then.
func RemoveOwn(fsys vfs.FS, dir string) error {
	dir = filepath.Join(dir, base.BackupDir)
	err := RemoveLeft(fsys, dir, false, isBackupID)
	if err == nil {
		_ = fsys.Remove(dir) // it fails if there is none, or if it is not empty
	}
	return err
}

// RemoveUnused removes the checkpoints that interrupted backups left in the directory of a database. Their locks stay:
// by these the next backup, or a prune of the repository, sees that the backups have ended.
func RemoveUnused(fsys vfs.FS, dir string) error {
	dir = filepath.Join(dir, base.BackupDir)
	return eachLeft(fsys, dir, isBackupID, func(dir string, lock io.Closer) error {
		return errors.CombineErrors(RemoveFiles(fsys, dir), lock.Close())
	})
}

// Remove removes the checkpoint of a backup, complete or not, and then its lock. A power cut leaves no checkpoint
// without a lock.
func Remove(fsys vfs.FS, dir string, lock io.Closer) error {
	if err := RemoveFiles(fsys, dir); err != nil {
		return errors.CombineErrors(err, lock.Close())
	}
	return vfs.RemoveLock(fsys, dir+LockSuffix, lock)
}

// RemoveFiles is Remove, except for the lock.
func RemoveFiles(fsys vfs.FS, dir string) error {
	err := errors.CombineErrors(removeFiles(fsys, dir), removeFiles(fsys, dir+tempSuffix))
	if err == nil {
		err = fsys.SyncDir(filepath.Dir(dir))
	}
	return err
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
