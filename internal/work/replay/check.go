package replay

import (
	"fmt"
	"path/filepath"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/disk/tables"
	"github.com/sievedb/sievedb/internal/disk/version"
)

// check compares the directory with the MANIFEST.
func (r *Replayer) check() error {
	if err := r.checkTables(); err != nil {
		return err
	}
	r.checkValues()
	markDoubt, err := r.checkClosed()
	if err != nil {
		return err
	}
	if err := r.checkLog(); err != nil {
		return err
	}
	r.doubt, err = manifest.IncompleteReason(r.dir.FS, r.dir.Path, r.files, r.state, r.mark, markDoubt, r.report.MissingLog)
	return err
}

// checkTables makes sure that every table of the version exists with its size, so that a MANIFEST
// that lost its tail or a directory that lost a file is reported now, and not when a key is read.
func (r *Replayer) checkTables() error {
	type file struct {
		num    uint64
		values bool
	}
	sizes := map[file]manifest.DirFile{}
	for _, f := range r.files.All {
		if f.Kind.IsTable() {
			at := file{f.Num, f.Kind == base.FileValues}
			if have, ok := sizes[at]; !ok || have.Kind == base.FileOldTable {
				sizes[at] = f
			}
		}
	}
	var err error
	r.version.AllFiles(func(level int, f *version.FileMeta) {
		have, ok := sizes[file{f.Num, f.Values}]
		f.OldSuffix = have.Kind == base.FileOldTable
		if err != nil {
			return
		}
		path := filepath.Join(r.dir.Path, f.Name())
		if !ok {
			err = base.InFile(base.Corruptf("table", -1, "the file is missing; the MANIFEST names it %s with %d bytes",
				place(level), f.Size), path, -1)
		} else {
			err = tables.CheckSize(f, have.Size, path)
		}
	})
	return err
}

// checkValues reports value tables beside a MANIFEST of another program. Other programs open no database with value
// tables, but their repairs remove the tables that refer to them.
func (r *Replayer) checkValues() {
	for _, f := range r.files.All {
		if f.Kind == base.FileValues && r.files.HasCurrent && !r.state.Ours && r.version.TableNumbered(f.Num) == nil {
			r.report.Losses = append(r.report.Losses, base.FileName(f.Kind, f.Num)+" has values to which no table refers: the repair of another "+
				"program has removed those tables; close the database, move the file back if it is in "+manifest.LostDir+
				", and use Repair, which reads it")
		}
	}
}

func place(level int) string {
	if level == version.ValuesLevel {
		return "as a value table"
	}
	return fmt.Sprintf("on level %d", level)
}

// checkLog distinguishes a MANIFEST that a crash cut from one that lost an edit that had been in
// force. That edit made a log superfluous, so the log that the earlier edits name is gone. A cut in
// the middle of an edit proves the loss. A cut between two edits proves it only if there is a later
// log. A complete MANIFEST may name a missing log if there is no other, as LevelDB allows; that is
// reported. A MANIFEST of a database whose logs are elsewhere is SieveDB's, whose logs are durable before
// an edit names them. So there a missing log proves that the directory has an older copy of the logs.
//
// goleveldb's MANIFEST proves no such loss. When goleveldb flushes an empty memtable, as in a
// compaction of a whole database that was just flushed, it starts a new log and removes the old one
// without an edit. A missing log of goleveldb is only reported.
func (r *Replayer) checkLog() error {
	state := &r.state
	if state.LogNum == 0 {
		return nil
	}
	later := ""
	for _, f := range r.files.All {
		if f.Kind == base.FileLog && f.Num == state.LogNum {
			return nil
		}
		if f.Kind == base.FileLog && f.Num > state.LogNum {
			later = base.FileName(f.Kind, f.Num)
		}
	}
	name := base.FileName(base.FileLog, state.LogNum)
	path := filepath.Join(r.dir.Path, state.ManifestName)
	switch {
	case state.ByGoLevelDB:
	case state.Tail.Dropped > 0:
		return base.InFile(base.Corruptf("version edit", state.Tail.Offset,
			"the last edit is cut off, and %s, which the earlier edits need, is missing: "+
				"the edit had been in force; Repair can rebuild the MANIFEST", name), path, -1)
	case later != "":
		return base.InFile(base.Corruptf("version edit", state.Tail.Offset, "the edits need %s, which is missing, although %s exists: "+
			"a later edit is lost, or the log is; Repair can rebuild the MANIFEST", name, later), path, -1)
	}
	if state.LogsElsewhere && r.opts.Salvage == SalvageNothing {
		return base.InFile(base.Corruptf("version edit", state.Tail.Offset, "the edits need %s, which is missing in the directory of the logs: "+
			"it has an older copy of them; pass the directory with the newest logs as Options.LogDir, or, if they are lost, "+
			"use Repair to continue without them", name), path, -1)
	}
	r.report.MissingLog = name
	if !state.ByGoLevelDB {
		r.report.Losses = append(r.report.Losses, name+", which the MANIFEST names, is missing: entries that only it contained are lost")
	}
	r.dir.Logger.Warn("the log that the MANIFEST names is missing; entries that only it contained are lost",
		"log", name, "goleveldb", state.ByGoLevelDB)
	return nil
}

// checkClosed looks for the mark of the last Close, and for the log that it names. doubt is as in
// manifest.FindCloseMark.
func (r *Replayer) checkClosed() (doubt string, err error) {
	if !r.files.HasCurrent {
		return "", nil
	}
	mark, doubt, err := manifest.FindCloseMark(r.dir.FS, r.dir.Path, r.dir.Logger, r.files.All, r.state)
	if mark == nil || err != nil {
		return doubt, err
	}
	if mark.LogFailed() {
		r.acknowledged = mark.LastSeq
		return "", nil
	}
	r.report.ClosedCleanly = true
	if err := mark.Missing(r.dir.Path, r.files.All); err != nil {
		if r.opts.Salvage == SalvageNothing {
			return "", err
		}
		r.report.MissingLog = base.FileName(base.FileLog, mark.Log.Num)
		r.report.Losses = append(r.report.Losses, err.Error())
		r.dir.Logger.Error("salvaging the other logs, because one is missing", "err", err)
	}
	r.mark = mark
	for i, f := range r.logs {
		r.logs[i].Size = mark.Clip(f)
	}
	return "", nil
}
