package flush

import (
	"slices"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/internal/read/lookup"
	"github.com/sievedb/sievedb/internal/write/commit"
	"github.com/sievedb/sievedb/memtable"
	"github.com/sievedb/sievedb/util"
)

// WriteCloseMark writes the file CLOSED, which vouches for the log, which is end, and the MANIFEST. Both
// are synced and closed. After a crash the file is complete or missing, and without it the
// database is as before. For a log that has failed, the mark only says which writes the next opening should find.
func (f *Flusher) WriteCloseMark(end commit.LogEnd) error {
	dir, set := &f.Dir, f.Set
	mark := manifest.CloseMark{Begin: util.MaskCRC(set.FirstRecordSum()), LastSeq: end.LastSeq}
	var err error
	if !end.Failed {
		if mark.Log, err = manifest.MarkFile(dir.FS, dir.Path, base.FileLog, end.Num); err == nil && mark.Log.Size != uint64(end.Size) {
			err = errors.Newf("the log is %d bytes long, %d were written to it", mark.Log.Size, end.Size)
		}
	}
	if err == nil {
		mark.Manifest, err = manifest.MarkFile(dir.FS, dir.Path, base.FileManifest, set.ManifestNum())
	}
	if err != nil {
		return errors.Wrap(err, "sievedb: another program changed the directory while the database was closed, so writes may be lost")
	}
	err = mark.Install(dir.FS, dir.Path, dir.File(base.FileTemp, set.NewFileNum()))
	if end.Failed {
		return errors.Wrapf(err, "sievedb: writing to %s which writes may be lost", base.ClosedName)
	}
	return errors.Wrapf(err, "sievedb: all data is safe, but %s could not be written", base.ClosedName)
}

// SaveMemtables writes to tables what the log end, which failed with cause, may lack. An empty log replaces it. It is
// called when nothing else writes. If it fails, the error says what may be lost.
func (f *Flusher) SaveMemtables(end *commit.LogEnd, cause error) error {
	edit := &manifest.Edit{LastSeq: manifest.Num(end.Used)}
	var written []*version.FileMeta
	err := f.Set.Verify()
	if err == nil {
		err = f.Commit.KeepFailed()
	}
	unsaved := 0
	for _, m := range slices.Backward(f.Current.State.Load().Memtables()) {
		unsaved += m.Len()
		if err == nil {
			var files []*version.FileMeta
			files, err = f.Write(m.Memtable, edit)
			written = append(written, files...)
		}
	}
	num := f.Set.NewFileNum()
	if err == nil {
		err = f.createEmptyLog(num)
	}
	if err != nil {
		f.Dir.RemoveTables(written)
	} else {
		edit.LogNum = manifest.Num(num)
		err = f.Commit.ApplyEdit(edit, written, func(s *lookup.State) {
			s.Mem, s.Imm = &lookup.Memtable{Memtable: memtable.New(f.Cmp, memtable.Slack)}, nil
		})
	}
	switch {
	case err == nil:
		f.Dir.Logger.Warn("the log failed; all that was acknowledged is in tables", "err", cause)
		f.Commit.LogSaved()
		*end = commit.LogEnd{Num: num, LastSeq: end.Used}
		return nil
	case unsaved == 0: // it is in tables already
		return cause
	}
	if manifest.IsGone(err) { // which explains the other
		cause, err = err, cause
	}
	return errors.Wrapf(errors.CombineErrors(cause, err), "sievedb: acknowledged writes may be lost, of the operations %d to %d: "+
		"the log failed, and they could not be written to tables", f.Set.LastSeq()+1, end.LastSeq)
}

func (f *Flusher) createEmptyLog(num uint64) error {
	log, err := f.Commit.CreateLog(num)
	if err != nil {
		return err
	}
	return log.Close()
}

// OnlyInLog adds to the error of a store whose files were taken away where the writes are that are in no table. Logs
// up to end have them, and end was still there when it was closed.
func (f *Flusher) OnlyInLog(end commit.LogEnd, gone error) error {
	name := base.FileName(base.FileLog, end.Num)
	if first := f.Set.LogNum(); first < end.Num { // of a memtable that could not be flushed
		name = base.FileName(base.FileLog, first) + " to " + name
	}
	if f.Dir.Verify() != nil {
		return errors.Wrapf(gone, "sievedb: the operations %d to %d are only in %s, which another store may remove or ignore",
			f.Set.LastSeq()+1, end.LastSeq, name)
	}
	return errors.Wrapf(gone, "sievedb: all acknowledged writes are in the tables and in %s", name)
}
