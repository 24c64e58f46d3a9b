// Package checkpoint copies the state of a store at one sequence number to a directory that opens as a
// database.
//
// Tables and full logs never change, so they are linked, or copied if the file system cannot link
// them. Only the newest log is always copied: the store continues to append to it. The directory is
// made under a temporary name, synced, and renamed. A crash leaves that name at most, and the next
// checkpoint of that directory removes it.
package checkpoint

import (
	"context"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/errors"
	"github.com/sievedb/sievedb/internal/manifest"
	"github.com/sievedb/sievedb/report"
	"github.com/sievedb/sievedb/util"
	"github.com/sievedb/sievedb/vfs"
)

// Options say what to copy, and where.
type Options struct {
	FS   vfs.FS // of both directories, with the tables
	Dir  string // of the store
	Dest string // absolute; it must not exist
	// Closed reports whether the store is being closed.
	Closed func() bool
}

// tempSuffix ends the name of an unfinished checkpoint.
const tempSuffix = ".checkpoint"

// maker makes one checkpoint.
type maker struct {
	Options
	ctx   context.Context
	state *State
	temp  string
	info  report.Checkpoint
}

// Make makes a checkpoint of a state. After an error there is none, and no file of it.
func Make(ctx context.Context, o Options, s *State) (report.Checkpoint, error) {
	m := maker{Options: o, ctx: ctx, state: s, temp: o.Dest + tempSuffix, info: report.Checkpoint{Seq: s.Seq}}
	if err := m.make(); err != nil {
		return report.Checkpoint{}, errors.Wrapf(base.NoSpace(err), "sievedb: Checkpoint to %s", o.Dest)
	}
	return m.info, nil
}

func (m *maker) make() error {
	if _, err := m.FS.Lstat(m.Dest); !errors.Is(err, fs.ErrNotExist) {
		return errors.CombineErrors(err, errors.Wrap(fs.ErrExist, "choose a directory that does not exist"))
	}
	err := vfs.MkdirAllSynced(m.FS, m.temp)
	var lock io.Closer
	if err == nil { // ErrLocked: another checkpoint to this directory is being made
		lock, err = m.FS.Lock(filepath.Join(m.temp, base.LockName), false)
	}
	if err != nil {
		_ = m.FS.Remove(m.temp) // if it is empty
		return err
	}
	if err = m.clear(); err == nil {
		err = m.fill()
	}
	if err == nil {
		err = m.FS.Rename(m.temp, m.Dest)
	}
	if err != nil {
		return errors.CombineErrors(err, m.giveUp(lock))
	}
	err = m.FS.SyncDir(filepath.Dir(m.Dest))
	return errors.CombineErrors(err, lock.Close())
}

// clear removes what an interrupted checkpoint left.
func (m *maker) clear() error {
	names, err := m.FS.List(m.temp)
	for _, name := range names {
		if _, _, ok := base.ParseFileName(name); !ok {
			return errors.Newf("%s has a file %s that is not of a checkpoint; remove the directory", m.temp, name)
		}
	}
	for _, name := range names {
		if name != base.LockName && err == nil {
			err = m.FS.Remove(filepath.Join(m.temp, name))
		}
	}
	return err
}

// giveUp removes the unfinished directory.
func (m *maker) giveUp(lock io.Closer) error {
	err := errors.CombineErrors(m.clear(), vfs.RemoveLock(m.FS, filepath.Join(m.temp, base.LockName), lock))
	if err == nil {
		err = m.FS.Remove(m.temp)
	}
	return err
}

// fill makes all files, durably.
func (m *maker) fill() (err error) {
	s := m.state
	s.Version.Files(func(_ int, f *manifest.FileMeta) {
		if err == nil {
			err = m.table(f)
		}
	})
	for _, l := range s.Logs {
		if err == nil {
			err = m.log(l)
		}
	}
	if err == nil {
		err = m.FS.SyncDir(m.temp)
	}
	if err != nil {
		return err
	}
	sum, err := s.Write(m.FS, m.temp)
	if err == nil && s.Whole {
		err = m.mark(s, sum)
	}
	return err
}

// goOn returns the reason to stop, if there is one.
func (m *maker) goOn() error {
	if m.Closed() {
		return base.ErrClosed
	}
	return m.ctx.Err()
}

// table links or copies a table.
func (m *maker) table(f *manifest.FileMeta) error {
	if err := m.goOn(); err != nil {
		return err
	}
	from, to := filepath.Join(m.Dir, f.Name()), filepath.Join(m.temp, f.Name())
	m.info.Tables++
	if m.FS.Link(from, to) == nil {
		m.info.BytesLinked += f.Size
		return nil
	}
	src, err := m.FS.Open(from)
	if err != nil {
		return err
	}
	defer src.Close()
	m.info.BytesCopied += f.Size
	return vfs.Copy(m.FS, src, int64(f.Size), to)
}

// log links or copies a log.
func (m *maker) log(l Log) error {
	if err := m.goOn(); err != nil {
		return err
	}
	name := base.FileName(base.FileLog, l.Num)
	to := filepath.Join(m.temp, name)
	m.info.Logs++
	if l.Full && m.FS.Link(filepath.Join(m.Dir, name), to) == nil {
		m.info.BytesLinked += uint64(l.Size)
		return nil
	}
	m.info.BytesCopied += uint64(l.Size)
	return vfs.Copy(m.FS, l.File, l.Size, to)
}

// mark writes CLOSED: nothing in the directory is from a crash.
func (m *maker) mark(s *State, recordSum uint32) (err error) {
	mark := manifest.CloseMark{Begin: util.MaskCRC(recordSum), LastSeq: s.Logged}
	if mark.Log, err = manifest.MarkFile(m.FS, m.temp, base.FileLog, s.Logs[len(s.Logs)-1].Num); err != nil {
		return err
	}
	if mark.Manifest, err = manifest.MarkFile(m.FS, m.temp, base.FileManifest, s.NextFileNum-1); err != nil {
		return err
	}
	return mark.Install(m.FS, m.temp, filepath.Join(m.temp, base.FileName(base.FileTemp, s.NextFileNum)))
}
