package db

import (
	stderrors "errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/cockroachdb/errors"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/wal"
)

// Salvage says what Open does about a log that is damaged in the middle, where
// acknowledged writes stood. A torn end, as crashes leave it, needs none of it.
type Salvage int

const (
	// SalvageNothing refuses to open.
	SalvageNothing Salvage = iota
	// SalvagePrefix keeps what comes before the damage: the database is as it was
	// at one moment of its past.
	SalvagePrefix
	// SalvageAll keeps every write that can be read, before and behind the damage:
	// the most data, in a state that the database may never have had.
	SalvageAll
)

// salvage decides what happens after log.Next failed with cause: it returns the
// record to go on with, nil to stop there, or the error to fail with.
func (r *recovery) salvage(log *wal.Reader, cause error, expected uint64, report *LogReport) ([]byte, error) {
	var fault *base.CorruptionError
	if !stderrors.As(cause, &fault) {
		return nil, cause // the disk failed: nothing is known about the bytes
	}
	tail := log.Tail()
	var resumed []byte
	lost := ""
	if log.Skip() {
		if record, err := log.Next(); err == nil {
			resumed = record
			if h, err := readBatchHeader(record); err == nil && h.seq > expected && expected > 0 {
				lost = fmt.Sprintf("; the operations numbered %d to %d cannot be read", expected, h.seq-1)
			}
		}
	}
	told := *fault
	told.Detail += lost + "; Options.Salvage opens the database with what can"
	if err := r.pass(&told, report); err != nil || r.ended || resumed == nil {
		report.BytesSkipped += max(tail.Dropped, 1)
		return nil, err
	}
	report.BytesSkipped += tail.Resume - tail.Offset
	return resumed, nil
}

// salvageRecord decides what happens about a record whose checksum holds and
// that does not decode.
func (r *recovery) salvageRecord(cause error, report *LogReport) error {
	report.RecordsSkipped++
	return r.pass(cause, report)
}

// pass returns cause unless Options.Salvage passes over it.
func (r *recovery) pass(cause error, report *LogReport) error {
	if r.d.opts.Salvage == SalvageNothing {
		return cause
	}
	r.ended = r.d.opts.Salvage == SalvagePrefix
	if report.Reason == "" {
		report.Reason = cause.Error()
	}
	r.d.opts.Logger.Error("salvaging a damaged log", "log", report.Name, "err", cause)
	return nil
}

// skipLog reports a log behind the damage at which SalvagePrefix ended.
func (r *recovery) skipLog(f dirFile) {
	if f.size == 0 {
		return
	}
	r.d.report.Logs = append(r.d.report.Logs, LogReport{
		Name: base.FileName(base.FileLog, f.num), Tail: "not read", BytesSkipped: f.size, SetAside: r.setAside(f, 0),
	})
}

// asideLog is a log of which the bytes from an offset on are kept in lost/ once
// the database does not need the log any more.
type asideLog struct {
	num  uint64
	from int64
	name string // in lost/
}

// setAside notes that the bytes of f from that offset on are to be kept, and
// returns where.
func (r *recovery) setAside(f dirFile, from int64) string {
	if r.d.opts.ReadOnly {
		return ""
	}
	name := base.FileName(base.FileLog, f.num)
	if from > 0 {
		name = fmt.Sprintf("%s.from-%d", name, from)
	}
	r.aside = append(r.aside, asideLog{f.num, from, name})
	return filepath.Join(lostDir, name)
}

// keepAside does what setAside noted of f, and reports whether f is gone by that.
func (r *recovery) keepAside(f dirFile) (moved bool) {
	for _, a := range r.aside {
		if a.num != f.num {
			continue
		}
		if err := r.d.moveAside(a); err != nil {
			r.d.opts.Logger.Error("what a log held behind its last record could not be kept", "log", base.FileName(f.kind, f.num), "err", err)
			return false
		}
		return a.from == 0
	}
	return false
}

func (d *DB) moveAside(a asideLog) error {
	lost := filepath.Join(d.dir, lostDir)
	if err := d.fs.MkdirAll(lost); err != nil {
		return err
	}
	log, to := d.path(base.FileLog, a.num), filepath.Join(lost, a.name)
	var err error
	if a.from == 0 {
		err = d.fs.Rename(log, to)
	} else {
		err = d.copyTail(log, to, a.from)
	}
	if err == nil {
		err = d.fs.SyncDir(lost)
	}
	if err == nil {
		err = d.fs.SyncDir(d.dir)
	}
	return err
}

func (d *DB) copyTail(log, to string, from int64) error {
	src, err := d.fs.Open(log)
	if err != nil {
		return err
	}
	defer src.Close()
	size, err := src.Size()
	if err != nil {
		return err
	}
	dst, err := d.fs.Create(to)
	if err != nil {
		return err
	}
	_, err = io.Copy(dst, io.NewSectionReader(src, from, size-from))
	if err == nil {
		err = dst.Sync()
	}
	return errors.CombineErrors(err, dst.Close())
}
