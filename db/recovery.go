package db

import (
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/read/lookup"
	"github.com/sievedb/sievedb/internal/work/checkpoint"
	"github.com/sievedb/sievedb/internal/work/replay"
	"github.com/sievedb/sievedb/internal/write/commit"
	"github.com/sievedb/sievedb/memtable"
)

// recover brings the store to the state that the files describe.
//
// Nothing is appended to recovered files: the content of the logs goes to tables, a new log
// and a new MANIFEST begin, and the old files are removed only when CURRENT names the new one.
// A crash at any moment leaves the old state or the new one. prefixes are the added ones of recordExpiry.
func (d *DB) recover(files manifest.DirFiles, state manifest.State, prefixes [][]byte) error {
	newMemtable, release := d.share.Memory().ForRecovery(d.opts.Comparer)
	defer release()
	r := replay.New(replay.Options{
		Dir: d.files, Comparer: d.opts.Comparer, Salvage: replay.Salvage(d.opts.Salvage), ReadOnly: d.opts.ReadOnly,
		WriteBufferSize: d.opts.Memtables.Size, WriteTable: d.writeMemtable, NewMemtable: newMemtable,
	}, files, state, d.set.Current())
	err := r.Run()
	if err == nil && d.opts.ReadOnly {
		d.installReadOnly(r)
	} else if err == nil {
		err = d.install(r, files, state, prefixes) // A panic in here does not abandon: the new MANIFEST may be in force.
	}
	if err != nil {
		r.Abandon()
		return err
	}
	found := r.Report()
	found.Created, found.Manifest, found.ManifestBytesDropped = d.report.Created, d.report.Manifest, d.report.ManifestBytesDropped
	found.OptionsChanged = d.report.OptionsChanged
	d.report = found
	return nil
}

// install makes the recovered state that of the store, durably.
func (d *DB) install(r *replay.Replayer, files manifest.DirFiles, state manifest.State, prefixes [][]byte) error {
	added, err := r.Finish()
	edit := &manifest.Edit{Added: added}
	if err == nil {
		err = d.tables.CountRefs(d.set.Current(), edit, d.opts.Logger)
	}
	if err == nil {
		err = d.recordExpiry(prefixes, edit, r.LastSeq())
	}
	if err != nil {
		return err
	}
	plan, err := d.planChanges(r, files, state)
	if err != nil {
		return err
	}
	logNum, lastSeq := d.set.NewFileNum(), r.LastSeq()
	if err := d.dir.Logs.Begin(); err != nil {
		return err
	}
	w, err := d.commit.CreateLog(logNum)
	if err != nil {
		return errors.CombineErrors(err, d.dir.Logs.Undo())
	}
	d.commit.Begin(commit.Start{
		Log: w, LogNum: logNum, LastSeq: lastSeq,
		Store: commit.Store{
			Set: d.set, Tables: d.tables, Obsolete: d.flusher.Obsolete, Changes: d.commitChanges(),
			Compactions: commit.Compactions{
				Full: d.compactor.BeginBurst, CanRelieve: d.compactor.CanRelieve, Paused: d.compactor.Paused, Stuck: d.compactor.Stuck,
				GarbageLoad: d.compactor.GarbageLoad, SetQuiet: d.compactor.SetQuiet, WouldFree: d.compactor.WouldFree,
			},
		},
	})
	d.dir.SetChanged(true) // also if it panics
	edit.LogNum, edit.LastSeq = manifest.Num(logNum), manifest.Num(lastSeq)
	err = d.set.Begin(edit, d.commit.Open)
	if err != nil {
		uncertain := manifest.IsUncertain(err)
		err = errors.CombineErrors(err, w.Close())
		if uncertain { // CURRENT may name the new MANIFEST, which names log and tables
			r.Keep()
		} else {
			d.dir.SetChanged(false)
			d.files.Remove(d.files.File(base.FileLog, logNum))
			err = errors.CombineErrors(err, d.dir.Logs.Undo())
		}
		return err
	}
	d.keepChanges(plan, logNum)
	r.RemoveOld(logNum, d.set.ManifestNum())
	if err := checkpoint.RemoveUnused(d.files.FS, d.files.Path); err != nil {
		d.opts.Logger.Warn("cannot remove what an interrupted backup left; the next backup or opening tries again", "err", err)
	}
	if err := d.dir.Logs.Finish(); err != nil {
		d.opts.Logger.Warn("the logs are not in another directory any more, but their marks could not be removed", "err", err)
	}
	return nil
}

// installReadOnly keeps the content of the logs in memory.
func (d *DB) installReadOnly(r *replay.Replayer) {
	s := &lookup.State{Version: d.set.Current()}
	for _, m := range r.Memtables() {
		s.Imm = append(s.Imm, &lookup.Memtable{Memtable: m})
	}
	if len(s.Imm) > 0 {
		s.Mem, s.Imm = s.Imm[0], s.Imm[1:]
	} else {
		s.Mem = &lookup.Memtable{Memtable: memtable.New(d.opts.Comparer, memtable.Slack)}
	}
	d.finder.VisibleSeq.Store(r.LastSeq())
	d.finder.State.Store(s)
}
