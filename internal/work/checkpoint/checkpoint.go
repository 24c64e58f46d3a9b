// Package checkpoint copies the state of a store at one sequence number to a directory that opens as a database.
//
// Tables and full logs never change, so they are linked, or copied if the file system cannot link them. Only the newest
// log is always copied: the store continues to append to it. A store that only reads, such as a follower, writes what
// it has of the logs as tables. The directory is made under a temporary name, synced, and renamed. A crash leaves that
// name at most, and the next checkpoint of that directory removes it.
package checkpoint

import (
	"bytes"
	"context"
	"io"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/disk/tables"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/report"
	"github.com/sievedb/sievedb/util"
	"github.com/sievedb/sievedb/vfs"
)

// Options say what to copy, and where.
type Options struct {
	FS   vfs.FS // of both directories, with the tables
	Dir  string // of the store
	Dest string // absolute; it must not exist
	// LogDir is the directory of the store's logs, if it is another one.
	LogDir string
	// Open opens a table of the store that cannot be linked.
	Open func(path string) (vfs.File, error)
	// Linked, if not nil, reports whether info, of a link to a path, is that of the store's table: another
	// process may have replaced the file.
	Linked func(path string, info fs.FileInfo) bool
	// Tables say how tables are written; the Dir and the file numbers are those of the checkpoint.
	Tables tables.WriterOptions
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
	if err := m.checkPlace(); err != nil {
		return err
	}
	if _, err := m.FS.Lstat(m.Dest); !errors.Is(err, fs.ErrNotExist) {
		return errors.CombineErrors(err, errors.Wrap(fs.ErrExist, "choose a directory that does not exist"))
	}
	err := m.makeTemp()
	if err != nil {
		return err
	}
	lock, err := m.FS.Lock(filepath.Join(m.temp, base.LockName), false)
	if err != nil { // ErrLocked: another checkpoint to this directory is being made
		_ = m.FS.Remove(m.temp) // if it is empty
		return err
	}
	if err = m.begin(); err == nil {
		err = m.fill()
	}
	if err == nil {
		err = m.FS.Rename(m.temp, m.Dest)
	}
	if err != nil {
		return errors.CombineErrors(err, m.giveUp(lock))
	}
	if err = m.FS.SyncDir(filepath.Dir(m.Dest)); err != nil {
		if m.FS.Rename(m.Dest, m.temp) == nil {
			return errors.CombineErrors(err, m.giveUp(lock))
		}
		return errors.CombineErrors(err, lock.Close())
	}
	_ = m.FS.Remove(filepath.Join(m.Dest, markerName)) // if it stays, the next Open removes it
	return lock.Close()
}

// checkPlace refuses a directory in those of the database, except where backups make their checkpoints.
func (m *maker) checkPlace() error {
	if filepath.Dir(m.Dest) == filepath.Join(m.Dir, base.BackupDir) {
		return nil
	}
	for _, dir := range []string{m.Dir, m.LogDir} {
		if dir == "" {
			continue
		}
		in, err := vfs.Within(m.FS, m.Dest, m.FS, dir)
		if err != nil {
			return err
		}
		if in {
			return errors.Newf("it is within %s, which belongs to the database; choose a directory outside", dir)
		}
	}
	return nil
}

// markerName is a file that is in the temporary directory before any other, with the name of the
// directory that the checkpoint is to get. It says that what is there may be removed. Every engine
// removes a file of this name when it opens a database.
var markerName = base.FileName(base.FileTemp, 0)

// makeTemp makes the temporary directory, or accepts the one of an interrupted checkpoint, unless another user can
// change it.
func (m *maker) makeTemp() error {
	there, err := vfs.PlainDir(m.FS, m.temp)
	if err == nil && !there {
		err = vfs.MkdirAllSynced(m.FS, filepath.Dir(m.temp))
	}
	if err != nil {
		return err
	}
	err = vfs.MkdirOwn(m.FS, m.temp)
	switch {
	case errors.Is(err, vfs.ErrNotOwn):
		return errors.Wrap(err, "the temporary directory of the checkpoint must be of the same user, and no other may "+
			"write in it; remove it, or choose another directory")
	case err != nil && !there:
		_ = m.FS.Remove(m.temp) // if it is there, it is empty
		return err
	case err != nil || !there:
		return err
	}
	names, err := m.FS.List(m.temp)
	if err != nil {
		return err
	}
	for _, name := range names {
		if name != base.LockName && name != markerName {
			return m.checkMarker()
		}
	}
	return nil
}

// checkMarker refuses a directory that is not of an interrupted checkpoint to Dest.
func (m *maker) checkMarker() error {
	path := filepath.Join(m.temp, markerName)
	f, err := m.FS.Open(path)
	if err != nil {
		return errors.Wrapf(err, "%s exists, and is not what an interrupted checkpoint left; move it away", m.temp)
	}
	defer f.Close()
	want := []byte(filepath.Base(m.Dest))
	content := make([]byte, len(want))
	size, err := f.Size()
	if err == nil && size == int64(len(want)) {
		_, err = vfs.ReadFull(f, content, 0)
	}
	if err == nil && !bytes.Equal(content, want) {
		err = errors.Newf("%s exists, and is of an interrupted checkpoint to another directory; remove it", m.temp)
	}
	return err
}

// begin removes what an interrupted checkpoint left, and writes the marker.
func (m *maker) begin() error {
	if err := m.clear(); err != nil {
		return err
	}
	f, err := m.FS.Create(filepath.Join(m.temp, markerName))
	if err != nil {
		return err
	}
	if _, err = f.Write([]byte(filepath.Base(m.Dest))); err == nil {
		err = f.Sync()
	}
	if err = errors.CombineErrors(err, f.Close()); err == nil {
		err = m.FS.SyncDir(m.temp)
	}
	return err
}

// clear removes the files of an unfinished checkpoint, the marker last.
func (m *maker) clear() error {
	names, err := m.FS.List(m.temp)
	marked := false
	for _, name := range names {
		switch {
		case err != nil || name == base.LockName:
		case name == markerName:
			marked = true
		default:
			err = m.FS.Remove(filepath.Join(m.temp, name))
		}
	}
	if err == nil && marked {
		if err = m.FS.SyncDir(m.temp); err == nil {
			err = m.FS.Remove(filepath.Join(m.temp, markerName))
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
	s.Version.AllFiles(func(_ int, f *version.FileMeta) {
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
		err = m.memtables()
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
func (m *maker) table(f *version.FileMeta) error {
	if err := m.goOn(); err != nil {
		return err
	}
	from, to := filepath.Join(m.Dir, f.Name()), filepath.Join(m.temp, f.Name())
	m.info.Tables++
	if linked, err := m.link(from, to); linked || err != nil {
		m.info.BytesLinked += f.Size
		return err
	}
	src, err := m.Open(from)
	if err != nil {
		return err
	}
	defer src.Close()
	m.info.BytesCopied += f.Size
	return vfs.Copy(m.FS, src, int64(f.Size), to)
}

// link links a table if it can.
func (m *maker) link(from, to string) (linked bool, err error) {
	if m.FS.Link(from, to) != nil {
		return false, nil
	}
	if m.Linked == nil {
		return true, nil
	}
	info, err := m.FS.Lstat(to)
	if err != nil || m.Linked(from, info) {
		return err == nil, err
	}
	return false, m.FS.Remove(to)
}

// memtables writes the memtables as tables of level 0, the oldest first.
func (m *maker) memtables() error {
	o := m.Tables
	o.Dir.FS, o.Dir.Path = m.FS, m.temp
	o.NewFileNum = func() uint64 { m.state.NextFileNum++; return m.state.NextFileNum - 1 }
	for _, mem := range slices.Backward(m.state.Memtables) {
		if err := m.goOn(); err != nil {
			return err
		}
		out := tables.NewWriter(o)
		for ikey, value := range mem.All() {
			if base.Trailer(ikey)>>8 > m.state.Seq {
				continue // written since
			}
			if err := out.Add(ikey, value); err != nil {
				out.Abandon()
				return err
			}
		}
		files, err := out.Finish()
		if err != nil {
			return err
		}
		for _, f := range files {
			m.state.Added = append(m.state.Added, version.LevelFile{Level: 0, File: f})
			m.info.Tables++
			m.info.BytesCopied += f.Size
		}
	}
	return nil
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
