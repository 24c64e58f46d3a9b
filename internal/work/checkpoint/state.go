package checkpoint

import (
	"io/fs"
	"path/filepath"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/memtable"
	"github.com/sievedb/sievedb/vfs"
)

// State is the state of a store at one moment.
type State struct {
	manifest.Snapshot // with a reference to the version
	Logs              []Log
	// Memtables are written as tables, up to Seq; the newest first.
	Memtables []*memtable.Memtable
	// Seq is the last sequence number, Logged that of the last write that did not fail.
	Seq, Logged uint64
	// Whole says that the last log is complete, so that later damage to it can be distinguished from a crash.
	Whole bool
	// Released, if not nil, is called by Release.
	Released func()
}

// Log is a log that a state needs, open so that its removal does not matter.
type Log struct {
	Num  uint64
	File vfs.File
	Size int64 // what the state needs of it
	Full bool  // nothing is appended to it any more
}

// Release releases what the state holds.
func (s *State) Release() (err error) {
	for _, l := range s.Logs {
		err = errors.CombineErrors(err, l.File.Close())
	}
	s.Version.Unref()
	if s.Released != nil {
		s.Released()
	}
	return err
}

// Take returns the state of an open store between two writes. fsys shows the logs as files of dir, and
// logs returns the numbers of those of the memtables, the oldest first. newest is how many bytes the last one has: its
// file may be longer.
func Take(fsys vfs.FS, dir string, set *manifest.Set, logs func() []uint64, newest int64) (*State, error) {
	for {
		s := &State{Snapshot: set.Snapshot()}
		nums := logs()
		err := s.open(fsys, dir, nums, newest)
		flushed := set.LogNum() != s.LogNum // and a log may be missing
		if err == nil && !flushed {
			s.LogNum = nums[0]
			return s, nil
		}
		if err != nil && !(flushed && errors.Is(err, fs.ErrNotExist)) {
			return nil, errors.CombineErrors(err, s.Release())
		}
		if err := s.Release(); err != nil {
			return nil, err
		}
	}
}

// TakeView returns the state of a store that only reads: a version, to which the state has a reference,
// and memtables, the newest first, whose entries up to seq count. They become tables, because the logs
// may be those of another engine, damaged, or still being written.
func TakeView(set *manifest.Set, v *version.Version, mems []*memtable.Memtable, seq uint64) *State {
	return &State{Snapshot: set.SnapshotOf(v, seq), Memtables: mems, Seq: seq, Logged: seq}
}

// Entries returns the number of entries in memtables.
func (s *State) Entries() (n int) {
	for _, m := range s.Memtables {
		n += m.Len()
	}
	return n
}

// open opens the logs. All but the last one are full, and that one has newest bytes.
func (s *State) open(fsys vfs.FS, dir string, nums []uint64, newest int64) error {
	for i, num := range nums {
		f, err := fsys.Open(filepath.Join(dir, base.FileName(base.FileLog, num)))
		if err != nil {
			return err
		}
		s.Logs = append(s.Logs, Log{Num: num, File: f, Full: i < len(nums)-1})
		if s.Logs[i].Size, err = f.Size(); err != nil {
			return err
		}
		if !s.Logs[i].Full {
			s.Logs[i].Size = min(s.Logs[i].Size, newest)
		}
	}
	return nil
}
