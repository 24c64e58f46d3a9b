package db

import (
	"path/filepath"
	"slices"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/errors"
	"github.com/sievedb/sievedb/internal/manifest"
	"github.com/sievedb/sievedb/sstable"
	"github.com/sievedb/sievedb/vfs"
)

// A table that the MANIFEST does not name is garbage if the MANIFEST holds every edit
// that was ever in force: a compaction or a flush was interrupted, or an input of
// one awaited its removal. If the MANIFEST has lost its end, the table may hold committed
// data. So Open removes such a table only if
//
//   - an edit that was read took it out of use, or
//   - nothing casts doubt on the MANIFEST (manifestDoubt), and the table's properties do not
//     claim entries newer than all that was recovered. A load leaves no other trace of an
//     edit that is lost: it takes no table and no log out of use.
//
// Any other table goes to lost/ before the new MANIFEST is in force, for the next Open would find
// nothing in doubt. An ordinary kill leaves a whole MANIFEST of our own, so that its rests are
// removed; only a kill between the two last steps of a load's Commit puts its tables there.
// A power cut during the append of an edit leaves a torn end, and with it a doubt.

// setAsideTables moves those tables that the new version does not name and that are not
// known to be garbage to lost/, durably.
func (r *recovery) setAsideTables(files manifest.DirFiles, state manifest.State) error {
	var strays []manifest.DirFile
	live := r.liveTables()
	for _, f := range files.All {
		if (f.Kind == base.FileTable || f.Kind == base.FileOldTable) && !live[f.Num] {
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
		dead, err := manifest.TakenOutOfUse(r.d.fs, filepath.Join(r.d.dir, state.ManifestName), state.Size, nums)
		if err != nil {
			return err
		}
		strays = slices.DeleteFunc(strays, func(f manifest.DirFile) bool { return dead[f.Num] })
	} else {
		why = "the entries of tables that it does not name are newer than what it says"
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

// liveTables are the numbers of the tables that the new version will name.
func (r *recovery) liveTables() map[uint64]bool {
	live := map[uint64]bool{}
	r.d.set.Current().Files(func(_ int, f *manifest.FileMeta) { live[f.Num] = true })
	for _, t := range r.tables {
		live[t.File.Num] = true
	}
	return live
}

// largestSeq returns the largest sequence number of a table of ours, as its properties claim;
// 0 if it has none or was never finished.
func (r *recovery) largestSeq(f manifest.DirFile) (uint64, error) {
	path := filepath.Join(r.d.dir, base.FileName(f.Kind, f.Num))
	file, err := r.d.fs.Open(path)
	if err != nil {
		return 0, err
	}
	reader, err := sstable.Open(file, sstable.ReaderOptions{Comparer: r.d.cmp, Name: path})
	if errors.Is(err, ErrCorruption) {
		return 0, nil // an edit names only tables that are whole
	}
	if err != nil {
		return 0, err
	}
	p, _ := reader.Properties()
	return p.LargestSeq, reader.Close()
}

// moveToLost moves tables to lost/, under names that nothing there has.
func (r *recovery) moveToLost(tables []manifest.DirFile, why string) error {
	if len(tables) == 0 {
		return nil
	}
	lost := filepath.Join(r.d.dir, manifest.LostDir)
	if err := vfs.MkdirPlain(r.d.fs, lost); err != nil {
		return err
	}
	if err := r.d.fs.SyncDir(r.d.dir); err != nil { // lost/ itself must be durable before anything moves there
		return err
	}
	for _, f := range tables {
		name := base.FileName(f.Kind, f.Num)
		unique, err := manifest.FreeName(r.d.fs, lost, name)
		if err != nil {
			return err
		}
		move := [2]string{filepath.Join(r.d.dir, name), filepath.Join(lost, unique)}
		if err := r.d.fs.Rename(move[0], move[1]); err != nil {
			return err
		}
		r.moved = append(r.moved, move)
		r.d.report.TablesSetAside = append(r.d.report.TablesSetAside, filepath.Join(manifest.LostDir, unique))
		r.d.opts.Logger.Warn("a table that the MANIFEST does not name is kept in lost: the MANIFEST may lack edits", "table", name, "why", why)
	}
	if err := r.d.fs.SyncDir(lost); err != nil {
		return err
	}
	return r.d.fs.SyncDir(r.d.dir)
}
