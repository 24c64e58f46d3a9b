package db

import (
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/disk/version"
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
// A crash at any moment leaves the old state or the new one.
func (o *opening) recover(files manifest.DirFiles, state manifest.State) error {
	newMemtable, release := o.share.Memory().ForRecovery(o.opts.Comparer)
	defer release()
	r := replay.New(replay.Options{
		Dir: o.files, Comparer: o.opts.Comparer, Salvage: replay.Salvage(o.opts.Salvage), ReadOnly: o.opts.ReadOnly,
		WriteBufferSize: o.opts.Memtables.Size, WriteTable: o.writers.writeMemtable, NewMemtable: newMemtable,
	}, files, state, o.set.Current())
	err := r.Run()
	if err == nil && o.opts.ReadOnly {
		o.installReadOnly(r)
	} else if err == nil {
		err = o.install(r, files, state) // A panic in here does not abandon: the new MANIFEST may be in force.
	}
	if err != nil {
		r.Abandon()
		return err
	}
	found := r.Report()
	found.Created, found.Manifest, found.ManifestBytesDropped = o.report.Created, o.report.Manifest, o.report.ManifestBytesDropped
	found.OptionsChanged = o.report.OptionsChanged
	o.report = found
	return nil
}

// install makes the recovered state that of the store, durably.
func (o *opening) install(r *replay.Replayer, files manifest.DirFiles, state manifest.State) error {
	added, err := r.Finish()
	edit := &manifest.Edit{Added: added}
	if err == nil {
		err = o.tables.CountRefs(o.set.Current(), edit, o.opts.Logger)
	}
	if err == nil {
		err = o.recordExpiry(edit, r.LastSeq())
	}
	if err != nil {
		return err
	}
	plan, err := o.planChanges(r, files, state)
	if err != nil {
		return err
	}
	logNum, lastSeq := o.set.NewFileNum(), r.LastSeq()
	if err := o.dir.Logs.Begin(); err != nil {
		return err
	}
	w, err := o.commit.CreateLog(logNum)
	if err != nil {
		return errors.CombineErrors(err, o.dir.Logs.Undo())
	}
	o.commit.Begin(commit.Start{
		Log: w, LogNum: logNum, LastSeq: lastSeq,
		Store: commit.Store{
			Set: o.set, Tables: o.tables, Obsolete: o.obsolete, Changes: o.feeds.forCommit(o.set),
			Compactions: commit.Compactions{
				Stop: o.compactor.Stop, Full: o.compactor.BeginBurst, CanRelieve: o.compactor.CanRelieve, Paused: o.compactor.Paused, Stuck: o.compactor.Stuck,
				GarbageLoad: o.compactor.GarbageLoad, SetQuiet: o.compactor.SetQuiet, WouldFree: o.compactor.WouldFree,
			},
		},
	})
	o.dir.SetChanged(true) // also if it panics
	edit.LogNum, edit.LastSeq = manifest.Num(logNum), manifest.Num(lastSeq)
	err = o.set.Begin(edit, o.commit.Open)
	if err != nil {
		uncertain := manifest.IsUncertain(err)
		err = errors.CombineErrors(err, w.Close())
		if uncertain { // CURRENT may name the new MANIFEST, which names log and tables
			r.Keep()
		} else {
			o.dir.SetChanged(false)
			o.files.Remove(o.files.File(base.FileLog, logNum))
			err = errors.CombineErrors(err, o.dir.Logs.Undo())
		}
		return err
	}
	o.keepChanges(plan, logNum)
	r.RemoveOld(logNum, o.set.ManifestNum())
	if err := checkpoint.RemoveUnused(o.files.FS, o.files.Path); err != nil {
		o.opts.Logger.Warn("cannot remove what an interrupted backup left; the next backup or opening tries again", "err", err)
	}
	if err := o.dir.Logs.Finish(); err != nil {
		o.opts.Logger.Warn("the logs are not in another directory any more, but their marks could not be removed", "err", err)
	}
	return nil
}

// installReadOnly keeps the content of the logs in memory.
func (o *opening) installReadOnly(r *replay.Replayer) {
	var mems []*lookup.Memtable
	for _, m := range r.Memtables() {
		mems = append(mems, &lookup.Memtable{Memtable: m})
	}
	showReadOnly(&o.finder.Current, o.opts.Comparer, o.set.Current(), mems, r.LastSeq())
}

// showReadOnly makes what a store that only reads shows current: a version and memtables, the newest first.
func showReadOnly(current *lookup.Current, cmp *Comparer, v *version.Version, mems []*lookup.Memtable, seq uint64) {
	if len(mems) == 0 {
		mems = []*lookup.Memtable{{Memtable: memtable.New(cmp, memtable.Slack)}}
	}
	current.VisibleSeq.Store(seq) // first: a compaction of the writer may have dropped what older numbers see
	current.State.Store(&lookup.State{Mem: mems[0], Imm: mems[1:], Version: v})
}
