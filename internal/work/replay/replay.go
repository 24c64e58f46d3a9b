package replay

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/batch"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/disk/tables"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/internal/disk/wal"
	"github.com/sievedb/sievedb/memtable"
	"github.com/sievedb/sievedb/vfs"
)

// Options are the options of a replay. All are required.
type Options struct {
	Dir             tables.Directory
	Comparer        *base.Comparer
	Salvage         Salvage
	ReadOnly        bool // nothing is written: the entries of the logs stay in memory
	WriteBufferSize int  // of a memtable, in bytes
	// WriteTable writes the entries of a memtable as a table of level 0 and makes the table and
	// its name durable. It returns nil for an empty memtable, and leaves no file after an error.
	WriteTable func(*memtable.Memtable, *manifest.Edit) ([]*version.FileMeta, error)
	// NewMemtable returns an empty memtable whose arena has usual bytes or, if memory is scarce, at
	// least so many. Of those that are not ReadOnly, the one before is not needed any more.
	NewMemtable func(least, usual uint64) *memtable.Memtable
}

// Replayer replays the logs that the MANIFEST needs. The caller calls Run, then, for a database opened for writing,
// Finish and RemoveOld. If any of them fails, the caller calls Abandon, which removes the new files.
type Replayer struct {
	opts    Options
	dir     tables.Directory
	files   manifest.DirFiles // the content of the directory
	state   manifest.State    // according to the MANIFEST
	version *version.Version  // of the MANIFEST
	report  openReport

	logs     []manifest.DirFile  // needed, ascending
	mark     *manifest.CloseMark // nil if the database is not known to have been closed
	doubt    string              // why the MANIFEST may lack edits; see setAsideTables
	salvaged bool                // Salvage dropped a part of the logs
	ended    bool                // by Salvage: later records are not replayed
	// acknowledged is the last sequence number of a database whose Close could not make it durable, or 0.
	acknowledged uint64

	mem      *memtable.Memtable
	inserter memtable.Inserter
	full     []*memtable.Memtable // read-only: oldest first
	spare    *memtable.Memtable   // read-only: see thinOut

	lastSeq   uint64
	logSeq    uint64 // the last sequence number read from a log, 0 if none was read
	recordSeq uint64 // of the record replayed last
	shift     uint64 // added to the numbers in the logs; see replayRecord

	kept   []string    // files made in lost/
	moved  [][2]string // tables moved to lost/: from, to
	tables []version.LevelFile
}

// New returns the replay of the logs among files. state and v are those of the MANIFEST; for a
// new database they are empty.
func New(o Options, files manifest.DirFiles, state manifest.State, v *version.Version) *Replayer {
	r := &Replayer{opts: o, dir: o.Dir, files: files, state: state, version: v, lastSeq: state.LastSeq}
	r.inserter.Frugal = o.ReadOnly // a read-only opening keeps the inserter
	v.Files(func(_ int, f *version.FileMeta) {
		r.lastSeq = max(r.lastSeq, base.Trailer(f.Smallest)>>8, base.Trailer(f.Largest)>>8)
	})
	for _, f := range files.All {
		if f.Kind == base.FileLog && (f.Num >= state.LogNum || f.Num == state.PrevLogNum) && files.HasCurrent {
			r.logs = append(r.logs, f)
		}
	}
	slices.SortFunc(r.logs, func(a, b manifest.DirFile) int { return cmp.Compare(a.Num, b.Num) })
	return r
}

// Run compares the directory with the MANIFEST, then replays the logs.
func (r *Replayer) Run() error {
	if err := r.check(); err != nil {
		return err
	}
	// No caller needs the files that a panicking replay wrote, so the panic is an ordinary error.
	if err := base.Catch(r.opts.Comparer, "the replay of the logs", r.replay); err != nil {
		return err
	}
	if err := r.checkReached(); err != nil {
		return err
	}
	return r.checkStrays()
}

// LastSeq returns the last sequence number in use.
func (r *Replayer) LastSeq() uint64 { return r.lastSeq }

// Memtables returns the memtables that a read-only replay keeps, newest first.
func (r *Replayer) Memtables() []*memtable.Memtable {
	if r.mem == nil {
		return nil
	}
	all := append(slices.Clone(r.full), r.mem)
	slices.Reverse(all)
	return all
}

// Finish writes the remaining entries as a table, moves tables that may be needed to lost/, and
// returns the new tables, all of which are durable. It is called once.
func (r *Replayer) Finish() ([]version.LevelFile, error) {
	if r.mem != nil {
		if err := r.flush(); err != nil {
			return nil, err
		}
	}
	return r.tables, r.setAsideTables()
}

// replay reads the logs. The newest log with records may have a torn tail. A later one that is empty or
// has only zeros was prepared, and nothing was written to it. An older one may have a torn tail too if
// LevelDB or goleveldb wrote it, because they do not sync a log before they start the next. In a log
// of SieveDB, a torn tail shows as a gap before the next log, whose preamble names the operation
// before it; zeros behind its records show nothing. Every log of a database that was closed is complete.
func (r *Replayer) replay() error {
	last := len(r.logs) - 1
	for ; last > 0; last-- {
		if blank, err := r.isBlank(r.logs[last]); err != nil {
			return err
		} else if !blank {
			break
		}
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

// isBlank reports whether nothing was written to a log: it is empty, or its space was reserved.
func (r *Replayer) isBlank(f manifest.DirFile) (bool, error) {
	return manifest.IsBlankLog(r.dir.FS, r.dir.Path, f, 0)
}

func (r *Replayer) replayLog(f manifest.DirFile, last bool) error {
	name := base.FileName(base.FileLog, f.Num)
	path := filepath.Join(r.dir.Path, name)
	file, err := r.dir.FS.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	report := logFindings{logReport: logReport{Name: name}}
	expected := uint64(0)  // the sequence number of the next record; 0 means any
	first := uint64(0)     // the number after those of earlier logs, according to the preamble; 0 means unknown
	undecoded := uint64(0) // bytes of later records that Salvage has skipped
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
			if record, err = r.passHole(log, file, max(first, expected), &report); record == nil && err == nil {
				break
			}
		} else if err != nil {
			if record, err = r.salvage(log, err, max(first, expected), &report); err == nil && record == nil {
				break
			}
		}
		if before, ok := batch.ReadPreamble(log, record); err == nil && ok {
			report.bySieveDB, first = true, before+1
			if err = r.checkGap(before, &report); err == nil {
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
			} else if errors.Is(err, base.ErrCorruption) {
				undecoded += uint64(len(record))
				err = r.salvageRecord(err, &report)
			}
		}
		if err != nil {
			return base.InFile(err, path, log.Offset())
		}
	}
	if err := r.checkMark(f, file, &report); err != nil {
		return base.InFile(err, path, -1)
	}
	return r.finishLog(f, log.Tail(), report)
}

// checkMark compares the last log of a database that was closed with what CLOSED says about it.
func (r *Replayer) checkMark(f manifest.DirFile, file vfs.File, report *logFindings) error {
	if r.mark == nil || r.mark.Log.Num != f.Num || report.Reason != "" {
		return nil
	}
	return r.salvageClosed(r.mark.Check(file, f.Size), report)
}

// finishLog reports the log and copies its unused bytes to lost/: all of a damaged log, or the bytes
// after the last record of a cut one.
func (r *Replayer) finishLog(f manifest.DirFile, tail wal.Tail, report logFindings) (err error) {
	switch {
	case report.Reason != "": // Salvage has skipped something
		report.Tail = "damaged"
		_, err = r.setAside(f, 0, &report.logReport)
	default:
		report.Tail, report.Reason = tail.Kind.String(), tail.Reason
		report.BytesDropped += tail.Dropped
		if tail.Dropped > 0 {
			_, err = r.setAside(f, tail.Offset, &report.logReport)
			r.dir.Logger.Warn("the end of a log was cut by a crash", "log", report.Name, "offset", tail.Offset,
				"dropped", tail.Dropped, "tail", report.Tail, "reason", tail.Reason)
		}
	}
	r.report.Logs = append(r.report.Logs, report.logReport)
	if report.GapBefore > 0 {
		r.report.Losses = append(r.report.Losses, fmt.Sprintf("%s: %d operations are missing before it", report.Name, report.GapBefore))
	}
	if report.Tail == "damaged" {
		r.report.Losses = append(r.report.Losses, fmt.Sprintf("%s: %d bytes and %d records were skipped: %s",
			report.Name, report.BytesSkipped, report.RecordsSkipped, report.Reason))
	}
	return err
}

// replayRecord adds one batch to the memtable and returns the next sequence number. It ignores the last sequence number
// of the MANIFEST: LevelDB records numbers ahead of those in the live log, and the entries of the log count.
//
// goleveldb reuses the sequence number of a write whose sync failed for the next write, so two records
// in a row have the same number. The later record was acknowledged, or is as uncertain as the earlier
// one. It and all later records get numbers above that of the earlier one.
func (r *Replayer) replayRecord(record []byte, expected uint64, report *logFindings) (next uint64, err error) {
	next, memSize, err := batch.Check(record)
	if err != nil {
		return 0, err
	}
	header, _ := batch.NewReader(record)
	if expected == 0 && r.logSeq > 0 && header.Seq == r.recordSeq {
		expected = r.logSeq + 1 // that record ends the previous log
	}
	switch {
	case header.Seq >= expected:
	case header.Seq == r.recordSeq && !report.bySieveDB && r.mark == nil:
		r.shift += expected - header.Seq
	default:
		return 0, base.Corruptf("batch", -1, "its sequence is %d, want at least %d", header.Seq, expected)
	}
	r.recordSeq = header.Seq
	if r.shift > 0 {
		if next+r.shift > base.MaxSeq {
			return 0, base.Corruptf("batch", 0, "its sequence is %d, plus %d because of earlier records with equal sequences, "+
				"want at most %d", header.Seq, r.shift, base.MaxSeq)
		}
		record = bytes.Clone(record)
		batch.SetSeq(record, header.Seq+r.shift)
	}
	if err := r.insert(record, memSize); err != nil {
		return 0, err
	}
	if report.Records == 0 && !report.bySieveDB && r.logSeq > 0 && header.Seq > r.logSeq+1 {
		report.GapBefore = header.Seq - r.logSeq - 1
		r.dir.Logger.Warn("operations are missing between two logs", "log", report.Name, "missing", report.GapBefore)
	}
	r.logSeq = max(r.logSeq, next-1)
	report.Records++
	report.Entries += uint64(header.Count)
	r.lastSeq = max(r.lastSeq, next+r.shift-1)
	return next, nil
}
