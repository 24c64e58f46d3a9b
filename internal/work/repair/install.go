package repair

import (
	"fmt"
	"math"
	"path/filepath"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/vfs"
)

// install makes the plan the state of the directory.
//
//  1. The new tables get their names, durably.
//  2. What is given up is noted in lost/ for a repair that follows an interrupted one, and the new MANIFEST is written,
//     durably, with a number above all others.
//  3. The other MANIFESTs are moved to lost/, then all other unused files.
//  4. CURRENT is switched.
//
// Before step 3, another repair finds the same files as this one, and some entries twice. From step 3 on, CURRENT names
// a MANIFEST that does not exist, or is damaged: Open and LevelDB refuse it, and another repair uses the new MANIFEST,
// which is the newest. Files are moved before the switch, since an Open between the two would delete them as leftovers.
func (r *Repairer) install(p *plan) error {
	if err := r.nameTables(p); err != nil {
		return err
	}
	manifestNum, err := r.writeManifest(p)
	if err != nil {
		return err
	}
	r.made = nil // from here on, all files that the repair made are needed
	if err := r.moveChanges(); err != nil {
		return err
	}
	if err := r.moveAway(p); err != nil {
		return err
	}
	if err := manifest.SetCurrent(r.fs, r.dir, manifestNum); err != nil {
		return err
	}
	_ = r.end() // the repair is complete
	return nil
}

// nameTables renames the new tables from their temporary names.
func (r *Repairer) nameTables(p *plan) error {
	for _, u := range p.made {
		name := base.FileName(base.FileTable, u.meta.Num)
		r.made[name] = true
		if err := r.fs.Rename(u.path, r.path(name)); err != nil {
			return err
		}
		delete(r.made, filepath.Base(u.path))
		r.report.TablesWritten++
		r.report.BytesWritten += u.meta.Size
		r.report.EntriesWritten += u.entries
	}
	if len(p.made) == 0 {
		return nil
	}
	return r.fs.SyncDir(r.dir)
}

func (r *Repairer) writeManifest(p *plan) (num uint64, err error) {
	logNum := r.newNum() // of an empty log: the tables have all entries of the logs
	if err := r.writeEmptyLog(base.FileName(base.FileLog, logNum)); err != nil {
		return 0, err
	}
	num = r.newNum()
	edit := &manifest.Edit{
		Comparer: r.cmp.Name, LogNum: manifest.Num(logNum), PrevLogNum: manifest.Num(0),
		NextFileNum: manifest.Num(r.nextNum), LastSeq: manifest.Num(r.lastSeq), Added: p.placed,
	}
	r.placeValues(p, edit)
	edit.Comparer = base.MarkComparerName(edit.Comparer, false, len(edit.Values) > 0)
	recorded := r.keptRecord(p)
	recorded.AddTo(edit)
	// An edit that Open could not apply must not be installed.
	if _, err := version.New(r.cmp, new(version.Owner)).Apply(edit.Change()); err != nil {
		return 0, err
	}
	name := base.FileName(base.FileManifest, num)
	if err := r.begin(name); err != nil {
		return 0, err
	}
	r.made[name] = true
	r.report.NewManifest = name
	return num, manifest.WriteFile(r.fs, r.dir, num, edit)
}

// writeEmptyLog creates the log that the new MANIFEST names, because Open treats a missing log as a
// loss. Its name becomes durable with that of the MANIFEST.
func (r *Repairer) writeEmptyLog(name string) error {
	f, err := r.fs.Create(r.path(name))
	if err != nil {
		return err
	}
	r.made[name] = true
	return errors.CombineErrors(f.Sync(), f.Close())
}

// moveChanges moves the logs that were kept for DB.Changes to lost/: the repaired database may differ from what
// its history leads to.
func (r *Repairer) moveChanges() error {
	there, err := vfs.PlainDir(r.fs, r.path(base.ChangesDir))
	if !there || err != nil {
		return err
	}
	lost := r.path(manifest.LostDir)
	if err := vfs.MkdirPlain(r.fs, lost); err != nil {
		return err
	}
	name, err := manifest.FreeName(r.fs, lost, base.ChangesDir)
	if err == nil {
		err = r.fs.Rename(r.path(base.ChangesDir), filepath.Join(lost, name))
	}
	if err == nil {
		err = r.fs.SyncDir(lost)
	}
	if err == nil {
		err = r.fs.SyncDir(r.dir)
	}
	return err
}

// moveAway moves the unused files to lost/.
func (r *Repairer) moveAway(p *plan) error {
	copyCurrent := !r.manifest.inForce && len(r.ofKind(base.FileCurrent)) > 0
	if len(p.moves) == 0 && !copyCurrent {
		return nil
	}
	lost := r.path(manifest.LostDir)
	if err := vfs.MkdirPlain(r.fs, lost); err != nil {
		return err
	}
	if err := r.fs.SyncDir(r.dir); err != nil {
		return err
	}
	names, err := r.fs.List(lost)
	if err != nil {
		return err
	}
	m := mover{r: r, lost: lost, taken: map[string]bool{}}
	for _, name := range names {
		m.taken[name] = true
	}
	if copyCurrent {
		line, err := m.copyCurrent()
		if err != nil {
			return err
		}
		p.lines = append(p.lines, line)
	}
	var manifests, others []*File
	for _, line := range p.moves {
		if kind, _, _ := base.ParseFileName(line.Name); kind == base.FileManifest {
			manifests = append(manifests, line)
		} else {
			others = append(others, line)
		}
	}
	if err := m.move(manifests); err != nil {
		return err
	}
	return m.move(others)
}

// mover moves files to lost/.
type mover struct {
	r     *Repairer
	lost  string
	taken map[string]bool // names in lost/
}

// free returns an unused name in lost/: name itself, or name with a number.
func (m *mover) free(name string) string {
	unique := name
	for i := 1; m.taken[unique]; i++ {
		unique = fmt.Sprintf("%s.%d", name, i)
	}
	m.taken[unique] = true
	return unique
}

// move renames the files and makes the new names in lost/ durable first: a file whose name is in
// neither directory would be lost.
func (m *mover) move(files []*File) error {
	if len(files) == 0 {
		return nil
	}
	var failed error
	for _, f := range files {
		name := m.free(f.Name)
		if failed = m.r.fs.Rename(m.r.path(f.Name), filepath.Join(m.lost, name)); failed != nil {
			break
		}
		f.LostName = name
	}
	err := errors.CombineErrors(failed, m.r.fs.SyncDir(m.lost))
	if err == nil {
		err = m.r.fs.SyncDir(m.r.dir)
	}
	return err
}

// copyCurrent keeps a copy of an unusable CURRENT. CURRENT cannot be moved: in a directory without
// it, LevelDB creates a database and removes the tables.
func (m *mover) copyCurrent() (*File, error) {
	line := &File{Name: base.CurrentName, Fate: rewritten, Level: -1, LostName: m.free(base.CurrentName)}
	n, err := manifest.CopyFrom(m.r.fs, m.r.path(base.CurrentName), filepath.Join(m.lost, line.LostName), 0, math.MaxInt64)
	line.Bytes = uint64(n)
	if err == nil {
		err = m.r.fs.SyncDir(m.lost)
	}
	return line, err
}
