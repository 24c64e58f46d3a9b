package replay

import (
	"fmt"
	"io"
	"path/filepath"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/batch"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/disk/wal"
	"github.com/sievedb/sievedb/vfs"
)

// Salvage says what happens with a log that is damaged in the middle. The values are those of db.Salvage.
type Salvage int

const (
	// SalvageNothing fails.
	SalvageNothing Salvage = iota
	// SalvagePrefix keeps the records before the damage.
	SalvagePrefix
	// SalvageAll keeps all readable records, before the damage and after it.
	SalvageAll
)

// salvage decides what happens after log.Next failed with cause: it returns the record to continue
// with, nil to stop there, or the error to fail with.
func (r *Replayer) salvage(log *wal.Reader, cause error, expected uint64, report *logFindings) ([]byte, error) {
	var fault *base.CorruptionError
	if !errors.As(cause, &fault) {
		return nil, cause // the read failed, so the bytes are unknown
	}
	if found, err := r.findAppended(log, expected, report); err != nil {
		return nil, err
	} else if found {
		tail := log.Tail()
		report.BytesDropped += tail.Resume - tail.Offset
		r.noteAppended(tail, tail.Resume-tail.Offset, report)
		log.Skip()
		return log.Next()
	}
	tail := log.Tail()
	var resumed []byte
	lost := ""
	if log.Skip() {
		record, err := log.Next()
		if err != nil && !errors.Is(err, base.ErrCorruption) {
			return nil, err // the same, after the look-ahead has examined more bytes
		}
		resumed = record
		h, err := batch.NewReader(record)
		if err == nil && !report.onlySieveDB() && r.nothingMissing(h.Seq, expected) {
			report.BytesDropped += tail.Resume - tail.Offset
			r.noteAppended(tail, tail.Resume-tail.Offset, report)
			return record, nil
		}
		if err == nil && h.Seq > expected && expected > 0 {
			lost = fmt.Sprintf("; the operations numbered %d to %d cannot be read", expected, h.Seq-1)
		}
	}
	explained := *fault
	if r.mark != nil {
		explained.Detail += "; the log was complete when the database was closed"
	}
	explained.Detail += lost + "; Options.Salvage opens the database with the readable records"
	if err := r.pass(&explained, report); err != nil || r.ended || resumed == nil {
		report.BytesSkipped += max(tail.Dropped, 1)
		return nil, err
	}
	report.BytesSkipped += tail.Resume - tail.Offset
	return resumed, nil
}

// nothingMissing reports whether a record numbered seq, the first after bytes that do not decode,
// continues a log of another program without a gap. LevelDB with reuse_logs appends after the torn end
// that a crash left and continues with the number of the torn write, which was never acknowledged. A
// record that was complete once and is damaged now leaves a gap. SieveDB never appends to a log that
// was read, so in its logs such bytes are damage, unless findAppended finds a record behind them.
func (r *Replayer) nothingMissing(seq, expected uint64) bool {
	if r.mark != nil {
		return false
	}
	if expected == 0 && r.logSeq > 0 {
		expected = r.logSeq + 1 // after the previous log
	}
	return expected > 0 && seq == expected
}

// findAppended looks for what LevelDB has appended to a log of SieveDB, behind the space that was reserved when that
// was killed. The log is then no longer SieveDB's alone: LevelDB may append to it again, anywhere.
func (r *Replayer) findAppended(log *wal.Reader, expected uint64, report *logFindings) (bool, error) {
	if !report.onlySieveDB() {
		return false, nil
	}
	found, err := log.FindAppended(func(record []byte) bool {
		h, err := batch.NewReader(record)
		return err == nil && r.nothingMissing(h.Seq, expected)
	})
	report.appended = found
	return found, err
}

func (r *Replayer) noteAppended(tail wal.Tail, dropped int64, report *logFindings) {
	r.dir.Logger.Warn("a record was appended after a torn one; no operation is missing between them", "log", report.Name,
		"offset", tail.Offset, "dropped", dropped)
}

// passHole is called at the end of the newest log. If that is a hole, and no operation is missing between the records
// around it, it is no end, and passHole returns the record after it. Otherwise it returns nil.
func (r *Replayer) passHole(log *wal.Reader, file vfs.File, expected uint64, report *logFindings) ([]byte, error) {
	if report.onlySieveDB() {
		if found, err := r.findAppended(log, expected, report); !found || err != nil {
			return nil, err
		}
	}
	tail := log.Tail()
	if !log.Skip() {
		return nil, nil
	}
	record, err := log.Next()
	if err != nil {
		return nil, err
	}
	h, err := batch.NewReader(record)
	if err != nil || !r.nothingMissing(h.Seq, expected) {
		return nil, nil
	}
	gap := tail.Resume - tail.Offset
	dropped, err := wal.UsedSize(io.NewSectionReader(file, tail.Offset, gap), gap)
	if dropped > 0 {
		report.BytesDropped += dropped
		r.noteAppended(tail, dropped, report)
	}
	return record, err
}

// passEnd reports whether reading continues with the next record after the end that the reader found.
// In a log that is known to be damaged, a hole does not prove a crash: records after it may have been
// acknowledged. Lost bytes are counted.
func (r *Replayer) passEnd(log *wal.Reader, report *logFindings) bool {
	if report.Reason == "" {
		return false
	}
	tail := log.Tail()
	if log.Skip() {
		report.BytesSkipped += tail.Resume - tail.Offset
		return true
	}
	report.BytesSkipped += tail.Dropped
	return false
}

// salvageClosed decides what happens with a log that is not the one that was closed, although its records are valid.
func (r *Replayer) salvageClosed(cause error, report *logFindings) error {
	var fault *base.CorruptionError
	if !errors.As(cause, &fault) {
		return cause
	}
	explained := *fault
	explained.Detail += "; Options.Salvage opens the database with the readable records"
	return r.pass(&explained, report)
}

// salvageRecord decides what happens with a record that has a valid checksum and does not decode.
func (r *Replayer) salvageRecord(cause error, report *logFindings) error {
	report.RecordsSkipped++
	return r.pass(cause, report)
}

// pass returns cause, or nil if Options.Salvage ignores it.
func (r *Replayer) pass(cause error, report *logFindings) error {
	if r.opts.Salvage == SalvageNothing {
		return cause
	}
	r.salvaged = true
	r.ended = r.opts.Salvage == SalvagePrefix
	if report.Reason == "" {
		report.Reason = cause.Error()
	}
	r.dir.Logger.Error("salvaging a damaged log", "log", report.Name, "err", cause)
	return nil
}

// skipLog reports a log that comes after the damage at which SalvagePrefix ended.
func (r *Replayer) skipLog(f manifest.DirFile) error {
	if blank, err := r.isBlank(f); blank || err != nil {
		return err
	}
	report := logReport{Name: base.FileName(base.FileLog, f.Num), Tail: "not read"}
	used, err := r.setAside(f, 0, &report)
	report.BytesSkipped = used
	r.report.Logs = append(r.report.Logs, report)
	return err
}

// setAside copies the bytes of f from the given offset on to lost/, durably and under an unused name, and returns the
// size of f, both without the zeros that end it, unless CLOSED says that they were something else. It is called while
// the log is still needed, so bytes that cannot be copied are not dropped. A read-only replay copies nothing.
func (r *Replayer) setAside(f manifest.DirFile, from int64, report *logReport) (used int64, err error) {
	src, err := r.dir.FS.Open(r.dir.File(base.FileLog, f.Num))
	if err != nil {
		return 0, err
	}
	defer src.Close()
	if used = f.Size; r.mark == nil {
		used, err = wal.UsedSize(src, f.Size)
	}
	if err != nil || r.opts.ReadOnly {
		return used, err
	}
	lost := filepath.Join(r.dir.Path, manifest.LostDir)
	if err := vfs.MkdirPlain(r.dir.FS, lost); err != nil {
		return used, err
	}
	unique, err := manifest.FreeName(r.dir.FS, lost, fmt.Sprintf("%s.from-%d", base.FileName(base.FileLog, f.Num), from))
	if err != nil {
		return used, err
	}
	to := filepath.Join(lost, unique)
	r.kept = append(r.kept, to)
	if _, err := manifest.CopyFrom(r.dir.FS, r.dir.File(base.FileLog, f.Num), to, from, used); err != nil {
		return used, err
	}
	report.SetAside = filepath.Join(manifest.LostDir, unique)
	if err := r.dir.FS.SyncDir(lost); err != nil {
		return used, err
	}
	return used, r.dir.FS.SyncDir(r.dir.Path)
}
