package replay

import (
	"path/filepath"
	"slices"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/sstable"
	"github.com/sievedb/sievedb/vfs"
)

// A table that the MANIFEST does not name is garbage if the MANIFEST has every edit that was ever in
// force: a compaction or a flush was interrupted, or an input of one awaited its removal. If the
// MANIFEST has lost its end, the table may have committed data. So Open removes such a table only if
//
//   - a readable edit removed it from the version, or
//   - nothing casts doubt on the MANIFEST (manifest.IncompleteReason), and the table's properties do
//     not claim entries newer than all recovered ones. A load leaves no other trace of a lost edit:
//     it removes no table and no log.
//
// Any other table goes to lost/ before the new MANIFEST is in force, because the next Open would
// find nothing in doubt. An ordinary kill leaves a complete MANIFEST of SieveDB, so its leftovers
// are removed; only a kill between the two last steps of a load's Commit puts its tables there. A
// power cut during the append of an edit leaves a torn end, and with it a doubt.

// setAsideTables moves the tables to lost/ that the new version does not name and that are not known
// to be garbage, and makes the moves durable.
func (r *Replayer) setAsideTables() error {
	var strays []manifest.DirFile
	live := r.liveTables()
	for _, f := range r.files.All {
		if f.Kind.IsTable() && !live[f.Num] {
			strays = append(strays, f)
		}
	}
	if len(strays) == 0 {
		return nil
	}
	why := r.doubt
	if why == "" && r.salvaged {
		why = "logs are damaged"
	}
	if why != "" {
		nums := map[uint64]bool{}
		for _, f := range strays {
			nums[f.Num] = true
		}
		dead, err := manifest.RemovedTables(r.dir.FS, filepath.Join(r.dir.Path, r.state.ManifestName), r.state.Size, nums)
		if err != nil {
			return err
		}
		strays = slices.DeleteFunc(strays, func(f manifest.DirFile) bool { return dead[f.Num] })
	} else {
		why = "tables that it does not name have entries newer than all others"
		newer := strays[:0]
		for _, f := range strays {
			seq, err := r.largestSeq(f)
			if err != nil {
				return err
			}
			if seq > r.lastSeq {
				newer = append(newer, f)
			}
		}
		strays = newer
	}
	return r.moveToLost(strays, why)
}

// checkStrays returns corruption if a log is missing, and a table that the MANIFEST does not name has entries newer
// than all recovered ones: a flush wrote the log as that table, and the edit that adds it is lost. Opening the
// database for writing would move the table to lost/.
func (r *Replayer) checkStrays() error {
	if r.report.MissingLog == "" || r.opts.Salvage != SalvageNothing {
		return nil
	}
	live := r.liveTables()
	for _, f := range r.files.All {
		if !f.Kind.IsTable() || live[f.Num] {
			continue
		}
		seq, err := r.largestSeq(f)
		if err != nil {
			return err
		}
		if seq > r.lastSeq {
			err := base.Corruptf("MANIFEST", -1, "it does not name %s, whose entries are newer than all others, and %s is missing: the edit "+
				"that added the table is lost; Repair can rebuild the MANIFEST, and Options.Salvage opens the database without the table",
				base.FileName(f.Kind, f.Num), r.report.MissingLog)
			return base.InFile(err, filepath.Join(r.dir.Path, r.state.ManifestName), -1)
		}
	}
	return nil
}

// liveTables returns the numbers of the tables of the new version.
func (r *Replayer) liveTables() map[uint64]bool {
	live := map[uint64]bool{}
	r.version.AllFiles(func(_ int, f *version.FileMeta) { live[f.Num] = true })
	for _, t := range r.tables {
		live[t.File.Num] = true
	}
	return live
}

// largestSeq returns the largest sequence number of a table, as its properties claim; 0 if it was never
// finished. A table of another program has no properties; if a log is missing, its entries are read.
func (r *Replayer) largestSeq(f manifest.DirFile) (uint64, error) {
	path := filepath.Join(r.dir.Path, base.FileName(f.Kind, f.Num))
	file, err := r.dir.FS.Open(path)
	if err != nil {
		return 0, err
	}
	reader, err := sstable.Open(file, sstable.ReaderOptions{Comparer: r.opts.Comparer, Name: path})
	if errors.Is(err, base.ErrCorruption) || errors.Is(err, base.ErrForeign) {
		return 0, nil // an edit names only complete tables
	}
	if err != nil {
		return 0, err
	}
	p, ok := reader.Properties()
	if !ok && r.report.MissingLog != "" {
		p.LargestSeq, err = largestEntry(reader)
	}
	return p.LargestSeq, errors.CombineErrors(err, reader.Close())
}

// largestEntry returns the largest sequence number of the readable entries of a table.
func largestEntry(reader *sstable.Reader) (largest uint64, err error) {
	it, err := reader.NewIter(sstable.IterOptions{NoFillCache: true})
	if err == nil {
		for ok := it.First(); ok; ok = it.Next() {
			seq, _ := base.SplitTrailer(base.Trailer(it.Key()))
			largest = max(largest, seq)
		}
		err = errors.CombineErrors(it.Err(), it.Close())
	}
	if errors.Is(err, base.ErrCorruption) {
		err = nil
	}
	return largest, err
}

// moveToLost moves tables to lost/, under unused names.
func (r *Replayer) moveToLost(tables []manifest.DirFile, why string) error {
	if len(tables) == 0 {
		return nil
	}
	lost := filepath.Join(r.dir.Path, manifest.LostDir)
	if err := vfs.MkdirPlain(r.dir.FS, lost); err != nil {
		return err
	}
	if err := r.dir.FS.SyncDir(r.dir.Path); err != nil { // lost/ must be durable before files move there
		return err
	}
	for _, f := range tables {
		name := base.FileName(f.Kind, f.Num)
		unique, err := manifest.FreeName(r.dir.FS, lost, name)
		if err != nil {
			return err
		}
		move := [2]string{filepath.Join(r.dir.Path, name), filepath.Join(lost, unique)}
		if err := r.dir.FS.Rename(move[0], move[1]); err != nil {
			return err
		}
		r.moved = append(r.moved, move)
		r.report.TablesSetAside = append(r.report.TablesSetAside, filepath.Join(manifest.LostDir, unique))
		r.dir.Logger.Warn("a table that the MANIFEST does not name is kept in lost: the MANIFEST may lack edits",
			"table", name, "why", why)
	}
	if err := r.dir.FS.SyncDir(lost); err != nil {
		return err
	}
	return r.dir.FS.SyncDir(r.dir.Path)
}

// RemoveOld removes the files that the new state does not need. logNum is the number of its log, the
// oldest that it needs; manifestNum is that of its MANIFEST.
func (r *Replayer) RemoveOld(logNum, manifestNum uint64) {
	live := r.liveTables()
	for _, move := range r.moved {
		_, num, _ := base.ParseFileName(filepath.Base(move[0]))
		live[num] = true // its file has been moved
	}
	for _, f := range r.files.All {
		keep := false
		switch f.Kind {
		case base.FileTable, base.FileOldTable, base.FileValues:
			keep = live[f.Num]
		case base.FileLog:
			keep = f.Num >= logNum
		case base.FileManifest:
			keep = f.Num == manifestNum
		}
		if !keep {
			r.dir.Remove(r.dir.File(f.Kind, f.Num))
			r.report.FilesRemoved++
		}
	}
}

// Keep makes Abandon remove nothing: the new files may be in use.
func (r *Replayer) Keep() { r.tables, r.kept, r.moved = nil, nil, nil }

// Abandon removes the new files, and moves the files in lost/ back.
func (r *Replayer) Abandon() {
	for _, move := range r.moved {
		if err := r.dir.FS.Rename(move[1], move[0]); err != nil {
			r.dir.Logger.Warn("cannot move a table back from lost", "table", filepath.Base(move[1]), "err", err)
		}
	}
	if len(r.moved) > 0 {
		_ = r.dir.FS.Remove(filepath.Join(r.dir.Path, manifest.LostDir)) // fails, as it should, if it is not empty
	}
	for _, path := range r.kept {
		r.dir.Remove(path)
	}
	if len(r.kept) > 0 {
		_ = r.dir.FS.Remove(filepath.Join(r.dir.Path, manifest.LostDir)) // fails, as it should, if it is not empty
	}
	for _, t := range r.tables {
		r.dir.Remove(filepath.Join(r.dir.Path, t.File.Name()))
	}
}
