package db

import (
	"bytes"
	"cmp"
	"io"
	"path/filepath"
	"slices"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/batch"
	"github.com/sievedb/sievedb/internal/errors"
	"github.com/sievedb/sievedb/internal/manifest"
	"github.com/sievedb/sievedb/internal/wal"
	"github.com/sievedb/sievedb/memtable"
)

// recovery replays the logs that the MANIFEST says are needed.
//
// Nothing that was recovered is appended to: what the logs held goes to tables,
// a new log and a new MANIFEST begin, and only when CURRENT names that one do the
// old files go. A crash at any moment of it finds the old state, or the new one.
type recovery struct {
	d         *DB
	logs      []manifest.DirFile  // needed, ascending
	mark      *manifest.CloseMark // nil: the database was not closed, as far as can be told
	doubt     string              // why the MANIFEST may lack edits; see manifestDoubt
	salvaged  bool                // something of the logs was given up
	mem       *memtable.Memtable
	inserter  memtable.Inserter
	full      []*memtable.Memtable // read-only: oldest first
	spare     *memtable.Memtable   // read-only: see thinOut
	lastSeq   uint64
	logSeq    uint64      // the last sequence number read from a log; 0: none yet
	recordSeq uint64      // that of the record replayed last
	shift     uint64      // what is added to those in the logs; see replayRecord
	ended     bool        // by Salvage: what comes later is not replayed
	kept      []string    // files made in lost/
	moved     [][2]string // tables moved to lost/: from, to
	tables    []manifest.LevelFile
}

// recover brings the store to the state that the files describe.
func (d *DB) recover(files manifest.DirFiles, state manifest.State, mark *manifest.CloseMark, doubt string) error {
	r := &recovery{d: d, mark: mark, doubt: doubt, lastSeq: state.LastSeq}
	r.inserter.Frugal = d.opts.ReadOnly // which keeps what it inserts
	d.set.Current().Files(func(_ int, f *manifest.FileMeta) {
		r.lastSeq = max(r.lastSeq, base.Trailer(f.Smallest)>>8, base.Trailer(f.Largest)>>8)
	})
	for _, f := range files.All {
		if f.Kind == base.FileLog && (f.Num >= state.LogNum || f.Num == state.PrevLogNum) && files.HasCurrent {
			r.logs = append(r.logs, f)
		}
	}
	slices.SortFunc(r.logs, func(a, b manifest.DirFile) int { return cmp.Compare(a.Num, b.Num) })
	// After a panic in replay nothing needs what it wrote. Of one in install that is not
	// certain: the next Open removes what nothing names.
	err := base.Catch(d.cmp, "the replay of the logs", r.replay)
	if err == nil {
		err = r.checkReached()
	}
	if err == nil {
		if d.opts.ReadOnly {
			r.installReadOnly()
			return nil
		}
		d.changed = true
		err = r.install(files, state)
	}
	if err != nil {
		r.abandon()
	}
	return err
}

// replay reads the logs. The newest that holds anything may have a torn tail; an
// older one too, where LevelDB or goleveldb wrote it, since they do not sync a
// log before they start the next. Of ours that shows as a gap, by the next log's preamble.
// Of a database that was closed every log is whole.
func (r *recovery) replay() error {
	last := len(r.logs) - 1
	for last > 0 && r.logs[last].Size == 0 {
		last--
	}
	for i, f := range r.logs {
		if r.ended {
			if err := r.skipLog(f); err != nil {
				return err
			}
			continue
		}
		if err := r.replayLog(f, i >= last); err != nil {
			return err
		}
	}
	return nil
}

func (r *recovery) replayLog(f manifest.DirFile, last bool) error {
	name := base.FileName(base.FileLog, f.Num)
	path := filepath.Join(r.d.dir, name)
	file, err := r.d.fs.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	report := LogReport{Name: name}
	expected := uint64(0)  // the sequence number of the next record; 0: any
	undecoded := uint64(0) // bytes of records since then that Salvage has passed over
	log := wal.NewReader(file, f.Size, wal.ReaderOptions{
		Last: last && r.mark == nil, AllowTornEnd: r.mark == nil,
		Plausible: func(record []byte, lost int64) bool {
			return batch.Plausible(record, expected, uint64(lost)+undecoded)
		},
	})
	for !r.ended {
		record, err := log.Next()
		if err == io.EOF {
			if r.passEnd(log, &report) {
				continue
			}
			break
		}
		if err != nil {
			if record, err = r.salvage(log, err, expected, &report); err == nil && record == nil {
				break
			}
		}
		if last, ok := batch.ReadPreamble(log, record); err == nil && ok {
			report.ours = true
			if err = r.checkGap(last, &report); err == nil {
				if r.ended {
					report.BytesSkipped = f.Size
				}
				continue
			}
		}
		if err == nil {
			var next uint64
			if next, err = r.replayRecord(record, expected, &report); err == nil {
				expected, undecoded = next, 0
			} else if errors.Is(err, ErrCorruption) {
				undecoded += uint64(len(record))
				err = r.salvageRecord(err, &report)
			}
		}
		if err != nil {
			return base.InFile(err, path, log.Offset())
		}
	}
	if r.mark != nil && r.mark.Log.Num == f.Num && report.Reason == "" {
		if err := r.salvageClosed(r.mark.Check(file, f.Size), &report); err != nil {
			return base.InFile(err, path, -1)
		}
	}
	return r.finishLog(f, log.Tail(), report)
}

// finishLog reports the log and keeps in lost/ what of it was not read: all of a
// damaged one, of a cut one the bytes behind its last record.
func (r *recovery) finishLog(f manifest.DirFile, tail wal.Tail, report LogReport) (err error) {
	switch {
	case report.Reason != "": // Salvage has passed over something
		report.Tail = "damaged"
		err = r.setAside(f, 0, &report)
	default:
		report.Tail, report.Reason = tail.Kind.String(), tail.Reason
		report.BytesDropped += tail.Dropped
		if tail.Dropped > 0 {
			err = r.setAside(f, tail.Offset, &report)
			r.d.opts.Logger.Warn("the end of a log was cut by a crash", "log", report.Name, "offset", tail.Offset,
				"dropped", tail.Dropped, "tail", report.Tail, "reason", tail.Reason)
		}
	}
	r.d.report.Logs = append(r.d.report.Logs, report)
	return err
}

// replayRecord adds one batch to the memtable and returns the sequence number
// behind it. The MANIFEST's last sequence does not matter here: LevelDB records
// numbers ahead of what the live log holds, and the log's entries count.
//
// goleveldb gives the number of a write whose sync failed to the next one, so that two
// records in a row have the same. The later one was acknowledged, or is as uncertain as
// the earlier: it and all that follows get numbers above the earlier one's.
func (r *recovery) replayRecord(record []byte, expected uint64, report *LogReport) (next uint64, err error) {
	next, memSize, err := batch.Check(record)
	if err != nil {
		return 0, err
	}
	header, _ := batch.NewReader(record)
	if expected == 0 && r.logSeq > 0 && header.Seq == r.recordSeq {
		expected = r.logSeq + 1 // that record ends the log before
	}
	switch {
	case header.Seq >= expected:
	case header.Seq == r.recordSeq && !report.ours && r.mark == nil:
		r.shift += expected - header.Seq
	default:
		return 0, base.Corruptf("batch", -1, "its sequence is %d, want at least %d", header.Seq, expected)
	}
	r.recordSeq = header.Seq
	if r.shift > 0 {
		if next+r.shift > base.MaxSeq {
			return 0, base.Corruptf("batch", 0, "its sequence is %d, which is %d more after records with equal sequences, want at most %d", header.Seq, r.shift, base.MaxSeq)
		}
		record = bytes.Clone(record)
		batch.SetSeq(record, header.Seq+r.shift)
	}
	if err := r.insert(record, memSize); err != nil {
		return 0, err
	}
	if report.Records == 0 && !report.ours && r.logSeq > 0 && header.Seq > r.logSeq+1 {
		report.GapBefore = header.Seq - r.logSeq - 1
		r.d.opts.Logger.Warn("operations are missing between two logs", "log", report.Name, "missing", report.GapBefore)
	}
	r.logSeq = max(r.logSeq, next-1)
	report.Records++
	report.Entries += uint64(header.Count)
	r.lastSeq = max(r.lastSeq, next+r.shift-1)
	return next, nil
}

// insert adds a batch, whose bytes are known to be good, to the memtable. A large
// one goes in entry by entry, over as many memtables as it takes: reserving for all
// of it would take 70 times its bytes where the entries are tiny. Nobody sees a
// part of it, since nothing is published before all logs are replayed. Where a
// memtable is kept, no room in it is wasted so.
func (r *recovery) insert(record []byte, memSize uint64) error {
	if memSize <= uint64(r.d.opts.WriteBufferSize) && !r.d.opts.ReadOnly {
		if err := r.makeRoom(memSize); err != nil {
			return err
		}
		batch.Insert(r.mem, &r.inserter, record)
		return nil
	}
	b, err := batch.NewReader(record)
	for err == nil {
		kind, key, value, seq, ok, nextErr := b.Next()
		if !ok {
			return nextErr
		}
		if err = r.makeRoom(uint64(memtable.EntrySize(len(key), len(value)))); err == nil {
			r.mem.AddWith(&r.inserter, seq, kind, key, value)
		}
	}
	return err
}

func (r *recovery) makeRoom(memSize uint64) error {
	if r.mem != nil && uint64(r.mem.Available()) >= memSize {
		return nil
	}
	if r.d.opts.ReadOnly {
		return r.keepRoom(memSize)
	}
	if r.mem != nil {
		if err := r.flush(); err != nil {
			return err
		}
	}
	r.mem = r.d.newMemBuffer(0, max(memSize, r.replayBuffer())).Memtable
	return nil
}

// flush writes the memtable as a table of level 0.
func (r *recovery) flush() error {
	file, err := r.d.writeMemtable(r.mem)
	if err == nil && file != nil {
		r.tables = append(r.tables, manifest.LevelFile{Level: 0, File: file})
	}
	r.mem = nil
	return err
}

// install makes the recovered state the store's, durably.
func (r *recovery) install(files manifest.DirFiles, state manifest.State) error {
	d := r.d
	if r.mem != nil {
		if err := r.flush(); err != nil {
			return err
		}
	}
	if err := r.setAsideTables(files, state); err != nil {
		return err
	}
	logNum := d.set.NewFileNum()
	w, err := d.createLog(logNum)
	if err != nil {
		return err
	}
	d.log = logState{w: w, lastSeq: r.lastSeq, logged: r.lastSeq}
	d.visibleSeq.Store(r.lastSeq)
	err = d.set.Begin(&manifest.Edit{
		LogNum: manifest.Num(logNum), LastSeq: manifest.Num(r.lastSeq), Added: r.tables,
	}, func(v *manifest.Version) {
		d.state.Store(&readState{mem: d.newMemBuffer(logNum, 0), version: v})
		d.throttleFor(d.state.Load())
	})
	if err != nil {
		uncertain := manifest.IsUncertain(err)
		err = errors.CombineErrors(err, w.Close())
		if uncertain { // CURRENT may name the new MANIFEST, which names both
			r.tables, r.kept, r.moved = nil, nil, nil
		} else {
			d.files.Remove(d.files.File(base.FileLog, logNum))
		}
		return err
	}
	r.removeOld(files, logNum)
	return nil
}

// removeOld removes what the listing shows and the new state does not need.
func (r *recovery) removeOld(files manifest.DirFiles, logNum uint64) {
	d := r.d
	live := r.liveTables()
	for _, move := range r.moved {
		_, num, _ := base.ParseFileName(filepath.Base(move[0]))
		live[num] = true // there is no such file any more
	}
	for _, f := range files.All {
		keep := false
		switch f.Kind {
		case base.FileTable, base.FileOldTable:
			keep = live[f.Num]
		case base.FileLog:
			keep = f.Num >= logNum
		case base.FileManifest:
			keep = f.Num == d.set.ManifestNum()
		}
		if !keep {
			d.files.Remove(d.files.File(f.Kind, f.Num))
			d.report.FilesRemoved++
		}
	}
}

// installReadOnly keeps what the logs held in memory.
func (r *recovery) installReadOnly() {
	d := r.d
	s := &readState{version: d.set.Current()}
	for _, m := range r.full {
		s.imm = append([]*memBuffer{{Memtable: m}}, s.imm...)
	}
	if s.mem = (&memBuffer{Memtable: r.mem}); r.mem == nil {
		s.mem = &memBuffer{Memtable: memtable.New(d.cmp, memtable.Slack)}
	}
	d.visibleSeq.Store(r.lastSeq)
	d.state.Store(s)
}

// abandon removes what was written for nothing, and moves back what was set aside.
func (r *recovery) abandon() {
	for _, move := range r.moved {
		if err := r.d.fs.Rename(move[1], move[0]); err != nil {
			r.d.opts.Logger.Warn("cannot move a table back from lost", "table", filepath.Base(move[1]), "err", err)
		}
	}
	if len(r.moved) > 0 {
		_ = r.d.fs.Remove(filepath.Join(r.d.dir, manifest.LostDir)) // fails, as it should, if it holds more
	}
	for _, path := range r.kept {
		r.d.files.Remove(path)
	}
	if len(r.kept) > 0 {
		_ = r.d.fs.Remove(filepath.Join(r.d.dir, manifest.LostDir)) // fails, as it should, where it holds more
	}
	for _, t := range r.tables {
		r.d.files.Remove(r.d.files.File(base.FileTable, t.File.Num))
	}
}
