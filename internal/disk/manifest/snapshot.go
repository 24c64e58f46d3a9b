package manifest

import (
	"path/filepath"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/internal/disk/wal"
	"github.com/sievedb/sievedb/util"
	"github.com/sievedb/sievedb/vfs"
)

// Snapshot is a version and what the MANIFEST records next to it.
type Snapshot struct {
	Version *version.Version
	// Logs below LogNum are not needed. LastSeq is that of the tables.
	LogNum, LastSeq uint64
	// NextFileNum is above the numbers of all files.
	NextFileNum uint64

	// Added are tables in addition to those of the version.
	Added []version.LevelFile

	Recorded Recorded
}

// Snapshot returns the present state, with a reference to its version, which the caller must release.
func (s *Set) Snapshot() Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.advanceTime()
	return Snapshot{Version: s.RefCurrent(), LogNum: s.logNum, LastSeq: s.lastSeq, NextFileNum: s.nextFileNum.Load(), Recorded: s.recorded}
}

// SnapshotOf returns a state with a version of the set, and without logs. It takes no reference.
func (s *Set) SnapshotOf(v *version.Version, lastSeq uint64) Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.advanceTime()
	next := s.nextFileNum.Load()
	v.AllFiles(func(_ int, f *version.FileMeta) { next = max(next, f.Num+1) })
	return Snapshot{Version: v, LastSeq: lastSeq, NextFileNum: next, Recorded: s.recorded}
}

// Write makes a MANIFEST for the snapshot in another directory, which has no CURRENT yet, and makes CURRENT name it,
// durably. It uses NextFileNum as the number of the MANIFEST, and returns the checksum of its only record.
func (s *Snapshot) Write(fsys vfs.FS, dir string) (recordSum uint32, err error) {
	num := s.NextFileNum
	s.NextFileNum++
	record := s.edit(s.Version.Cmp.Name, false).Encode(nil)
	f, err := fsys.Create(filepath.Join(dir, base.FileName(base.FileManifest, num)))
	if err != nil {
		return 0, err
	}
	w := wal.NewWriter(f)
	if err = w.WriteRecord(record); err == nil {
		err = w.Sync()
	}
	if err = errors.CombineErrors(err, w.Close()); err == nil {
		err = fsys.SyncDir(dir) // CURRENT must not be durable before
	}
	if err != nil {
		return 0, err
	}
	return util.CRC32C(record), writeCurrent(fsys, dir, num)
}

// edit returns the snapshot as an edit of an empty version.
func (s *Snapshot) edit(comparer string, logsElsewhere bool) *Edit {
	e := &Edit{
		Comparer: base.MarkComparerName(comparer, logsElsewhere, len(s.Version.Values) > 0), LogNum: Num(s.LogNum), PrevLogNum: Num(0),
		NextFileNum: Num(s.NextFileNum), LastSeq: Num(s.LastSeq),
	}
	e.CompactPointers = s.Recorded.appendPointer(nil)
	e.Added = append(e.Added, s.Added...)
	s.Version.AllFiles(func(level int, f *version.FileMeta) {
		e.Added = append(e.Added, version.LevelFile{Level: level, File: f})
	})
	for _, t := range s.Version.Values {
		e.Values = append(e.Values, version.ValueDelta{ID: t.ID, File: t.File.Num, Live: int64(t.Live)})
	}
	return e
}
