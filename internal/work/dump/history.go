package dump

import (
	"cmp"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/codec"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/batch"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/disk/wal"
	"github.com/sievedb/sievedb/sstable"
	"github.com/sievedb/sievedb/vfs"
)

// State is what a MANIFEST says about a directory.
type State struct {
	// Comparer is the recorded name, LastSeq the greatest sequence number that an edit recorded.
	Comparer string
	LastSeq  uint64
	// Recorded is what the last edit recorded about the database as a whole.
	Recorded manifest.Recorded
	// Tables are the names of the tables in use, Logs those of the logs that exist and are needed, the oldest first.
	Tables, Logs []string
	// ValueTables are the names of the value tables in use.
	ValueTables []string
}

// ReadState reads CURRENT and the MANIFEST that it names. It needs no comparer and no lock.
func ReadState(fsys vfs.FS, dir string) (s State, err error) {
	name, err := currentManifest(fsys, dir)
	if err != nil {
		return s, err
	}
	tables, logNum, prevLog, next := map[uint64]bool{}, manifest.OptionalNum{}, uint64(0), manifest.OptionalNum{}
	path := filepath.Join(dir, name)
	err = eachRecord(fsys, path, wal.ReaderOptions{AllowTornEnd: true}, func(_ *wal.Reader, record []byte) error {
		e, err := manifest.DecodeEdit(record)
		if err != nil {
			return err
		}
		if e.Comparer != "" {
			s.Comparer = e.Comparer
		}
		s.Recorded.Apply(e)
		if e.LogNum.Set {
			logNum = e.LogNum
		}
		if e.NextFileNum.Set {
			next = e.NextFileNum
		}
		if e.PrevLogNum.Set {
			prevLog = e.PrevLogNum.Value
		}
		s.LastSeq = max(s.LastSeq, e.LastSeq.Value)
		for _, f := range e.Deleted {
			delete(tables, f.Num)
		}
		for _, f := range e.Added {
			tables[f.File.Num] = true
		}
		return nil
	})
	// A cut MANIFEST can look like one that lists no tables, and the tables would be missing without a word.
	if err == nil && !(logNum.Set && next.Set) {
		err = base.InFile(base.Corruptf("MANIFEST", -1, "no edit has the log number and the next file number"), path, -1)
	}
	if err != nil {
		return s, err
	}
	err = s.list(fsys, dir, tables, func(num uint64) bool { return num >= logNum.Value || num == prevLog && num != 0 })
	return s, err
}

func currentManifest(fsys vfs.FS, dir string) (string, error) {
	path := filepath.Join(dir, base.CurrentName)
	f, err := fsys.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return "", base.InFile(err, path, -1)
	}
	b := make([]byte, min(size, maxSmall))
	if _, err := vfs.ReadFull(f, b, 0); err != nil {
		return "", base.InFile(err, path, 0)
	}
	name, err := manifest.ParseCurrent(b)
	return name, base.InFile(err, path, 0)
}

// list finds the files of the tables and logs.
func (s *State) list(fsys vfs.FS, dir string, tables map[uint64]bool, needed func(log uint64) bool) error {
	files, err := manifest.ListDir(fsys, dir)
	if err != nil {
		return err
	}
	slices.SortFunc(files.All, func(a, b manifest.DirFile) int { return cmp.Compare(a.Num, b.Num) })
	for _, f := range files.All {
		switch {
		case f.Kind == base.FileValues && tables[f.Num]:
			s.ValueTables = append(s.ValueTables, base.FileName(f.Kind, f.Num))
			delete(tables, f.Num)
		case (f.Kind == base.FileTable || f.Kind == base.FileOldTable) && tables[f.Num]:
			s.Tables = append(s.Tables, base.FileName(f.Kind, f.Num))
			delete(tables, f.Num)
		case f.Kind == base.FileLog && needed(f.Num):
			s.Logs = append(s.Logs, base.FileName(f.Kind, f.Num))
		}
	}
	if len(tables) > 0 {
		return base.InFile(base.Corruptf("directory", -1, "tables that the MANIFEST lists are missing: %d", len(tables)), dir, -1)
	}
	return nil
}

// History calls fn with every entry of the tables and logs in the directory: newer and older versions
// of keys, and tombstones, in no particular order. The keys are internal keys. The slices are valid
// during the call. Compactions drop older versions, so a history is complete only for keys that were
// not compacted. The database must not be open for writing.
func History(fsys vfs.FS, dir string, fn func(ikey, value []byte) error) (State, error) {
	s, err := ReadState(fsys, dir)
	if err != nil {
		return s, err
	}
	if strings.HasPrefix(s.Comparer, base.LogDirPrefix) {
		return s, errors.Newf("sievedb: %s has its logs in another directory, which is not supported here; "+
			"make a checkpoint of it, and read that", dir)
	}
	if len(s.ValueTables) > 0 {
		return s, errors.Newf("sievedb: %s has values apart from their keys, so its history cannot be read: "+
			"compare two checkpoints of it, or read the change feed of a store with Options.Changes", dir)
	}
	for _, name := range s.Tables {
		path := filepath.Join(dir, name)
		if err := tableEntries(fsys, path, fn); err != nil {
			return s, base.InFile(err, path, -1)
		}
	}
	newest, err := newestWritten(fsys, dir, s.Logs)
	if err != nil {
		return s, err
	}
	for i, name := range s.Logs {
		if err := logEntries(fsys, filepath.Join(dir, name), i >= newest, &s, fn); err != nil {
			return s, err
		}
	}
	return s, nil
}

// newestWritten returns the index of the last log that has more than reserved space.
func newestWritten(fsys vfs.FS, dir string, logs []string) (int, error) {
	newest := len(logs) - 1
	for ; newest > 0; newest-- {
		_, num, _ := base.ParseFileName(logs[newest])
		info, err := fsys.Stat(filepath.Join(dir, logs[newest]))
		if err != nil {
			return 0, err
		}
		blank, err := manifest.IsBlankLog(fsys, dir, manifest.DirFile{Kind: base.FileLog, Num: num, Size: info.Size()}, 0)
		if !blank || err != nil {
			return newest, err
		}
	}
	return newest, nil
}

// tableEntries calls fn with the entries of a table. Unlike an iterator, it does not check their order,
// which only the comparer knows.
func tableEntries(fsys vfs.FS, path string, fn func(ikey, value []byte) error) error {
	f, err := fsys.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	foot, size, err := sstable.ReadFooter(f)
	if err != nil {
		return err
	}
	_, index, err := sstable.ReadBlock(f, size, foot.Index)
	if err != nil {
		return err
	}
	end, budget := uint64(0), maxKeys(int64(size))
	_, err = sstable.EachEntry(index, func(_, value []byte) error {
		h, _, err := codec.DecodeHandle(value, handlePart)
		if err == nil && h.Offset < end {
			err = base.Corruptf("index block", int64(foot.Index.Offset), "a data block overlaps the one before it")
		}
		if err != nil {
			return err
		}
		_, data, err := sstable.ReadBlock(f, size, h)
		if err != nil {
			return err
		}
		end = h.End()
		_, err = sstable.EachEntry(data, func(ikey, value []byte) error {
			if !base.ValidInternalKey(ikey) || uint64(len(ikey)) > budget {
				return base.Corruptf("data block", int64(h.Offset), "a key is not an internal key, or the keys are too long in total")
			}
			budget -= uint64(len(ikey))
			return fn(ikey, value)
		})
		return err
	})
	return err
}

// logEntries calls fn with the entries of a log.
func logEntries(fsys vfs.FS, path string, last bool, s *State, fn func(ikey, value []byte) error) error {
	var ikey []byte
	o := wal.ReaderOptions{Last: last, AllowTornEnd: true}
	return eachRecord(fsys, path, o, func(r *wal.Reader, record []byte) error {
		b, err := batch.NewReader(record)
		if err != nil {
			return err
		}
		for {
			kind, key, value, seq, ok, err := b.Next()
			if !ok || err != nil {
				return err
			}
			s.LastSeq = max(s.LastSeq, seq)
			ikey = base.AppendInternalKey(ikey[:0], key, seq, kind)
			if err := fn(ikey, value); err != nil {
				return err
			}
		}
	})
}

// eachRecord calls fn with the records of a log or MANIFEST.
func eachRecord(fsys vfs.FS, path string, o wal.ReaderOptions, fn func(r *wal.Reader, record []byte) error) error {
	f, err := fsys.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return base.InFile(err, path, -1)
	}
	r := wal.NewReader(f, size, o)
	for {
		record, err := r.Next()
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = fn(r, record)
		}
		if err != nil {
			return base.InFile(err, path, r.Offset())
		}
	}
}
