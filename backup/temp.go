package backup

import (
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/vfs"
)

// markerName is the first file in a directory that is being restored. It has the last element of the name that the
// directory will get. Only a directory with this file may be cleared, because any other could be someone's database.
// Every engine removes a file of this name when it opens a database.
var markerName = base.FileName(base.FileTemp, 0)

// makeTemp makes the directory to restore to, or accepts the one of an interrupted call, and locks it. A directory that
// another user can change could become the database, with files of that user.
func (s *restoring) makeTemp() (lock io.Closer, err error) {
	if s.empty {
		return s.renameDest()
	}
	if err = vfs.MkdirAllSynced(s.fs, filepath.Dir(s.dest)); err == nil {
		err = vfs.MkdirOwn(s.fs, s.temp)
	}
	if err != nil {
		return nil, chooseAnother(err)
	}
	return s.lockTemp()
}

// chooseAnother adds what to do to the error about a directory that another user can change.
func chooseAnother(err error) error {
	if errors.Is(err, vfs.ErrNotOwn) {
		return errors.Wrap(err, "a directory that exists must belong to the user who restores, and no other may write "+
			"in it; remove it, or choose another name")
	}
	return err
}

// lockTemp locks a directory that this call may fill.
func (s *restoring) lockTemp() (io.Closer, error) {
	if err := s.checkTemp(); err != nil {
		return nil, err
	}
	lock, err := s.fs.Lock(filepath.Join(s.temp, base.LockName), false)
	if err != nil {
		return nil, err
	}
	if err = s.checkTemp(); err != nil {
		return nil, errors.CombineErrors(err, lock.Close())
	}
	return lock, nil
}

// renameDest makes an empty destination the directory to restore to, so that it keeps its mode and its owner. If it
// cannot be renamed, for example because it is a mount point, that is an error before anything is copied. It is locked
// under both names, so that no other call finds it empty and fills it.
func (s *restoring) renameDest() (io.Closer, error) {
	name := filepath.Join(s.dest, base.LockName)
	lock, err := s.fs.Lock(name, false)
	if err != nil {
		return nil, err
	}
	if err = s.checkDest(); err != nil {
		return nil, errors.CombineErrors(err, lock.Close())
	}
	if err = s.removeTemp(); err == nil {
		err = s.notReplaced(s.fs.Rename(s.dest, s.temp))
	}
	if err != nil {
		return nil, errors.CombineErrors(err, vfs.RemoveLock(s.fs, name, lock))
	}
	// Otherwise a power cut could bring its old name back, when it has files.
	if err = s.fs.SyncDir(filepath.Dir(s.dest)); err != nil {
		return nil, errors.CombineErrors(err, s.giveBack(lock))
	}
	return lock, nil
}

// removeTemp removes what an interrupted call left.
func (s *restoring) removeTemp() error {
	there, err := vfs.OwnDir(s.fs, s.temp)
	if err != nil || !there {
		return chooseAnother(err)
	}
	lock, err := s.lockTemp()
	if err != nil {
		return err
	}
	err = s.clear()
	if err == nil {
		err = s.removeFile(markerName)
	}
	if err != nil {
		return errors.CombineErrors(err, lock.Close())
	}
	if err = vfs.RemoveLock(s.fs, filepath.Join(s.temp, base.LockName), lock); err == nil {
		err = s.fs.Remove(s.temp)
	}
	return err
}

func (s *restoring) notReplaced(err error) error {
	return errors.Wrap(err, "the empty directory cannot be replaced, maybe since it is a mount point; "+
		"choose a directory that does not exist")
}

// checkTemp refuses a directory with files that is not of an interrupted call for dest.
func (s *restoring) checkTemp() error {
	names, err := s.fs.List(s.temp)
	if err != nil || !slices.ContainsFunc(names, func(n string) bool { return n != base.LockName && n != markerName }) {
		return err
	}
	f, err := s.fs.Open(filepath.Join(s.temp, markerName))
	if err != nil {
		return errors.Wrapf(err, "%s exists, and is not what an interrupted call left; move it away", s.temp)
	}
	defer f.Close()
	r, err := readFile(f)
	if err != nil {
		return err
	}
	want := filepath.Base(s.dest)
	got, err := io.ReadAll(atMost(r, int64(len(want))))
	if err == nil && string(got) != want {
		err = errors.Newf("%s exists, and is of an interrupted call for another directory; remove it", s.temp)
	}
	return err
}

// begin removes what an interrupted call left, and writes the marker.
func (s *restoring) begin() error {
	if err := s.clear(); err != nil {
		return err
	}
	err := s.removeFile(markerName)
	if err == nil {
		err = writeFile(s.ctx, s.fs, filepath.Join(s.temp, markerName), strings.NewReader(filepath.Base(s.dest)))
	}
	if err == nil {
		err = s.fs.SyncDir(s.temp)
	}
	return err
}

// giveBack removes the directory after an error. An empty one that was there gets its name back.
func (s *restoring) giveBack(lock io.Closer) error {
	if !s.empty {
		err := vfs.RemoveLock(s.fs, filepath.Join(s.temp, base.LockName), lock)
		return errors.CombineErrors(err, s.fs.Remove(s.temp))
	}
	if err := s.fs.Rename(s.temp, s.dest); err != nil {
		return errors.CombineErrors(err, lock.Close())
	}
	return vfs.RemoveLock(s.fs, filepath.Join(s.dest, base.LockName), lock)
}
