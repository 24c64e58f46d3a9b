package repair

import (
	"io"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/batch"
	"github.com/sievedb/sievedb/internal/disk/wal"
)

// foundLog is a log of the directory.
type foundLog struct {
	dirFile
	line *File
	// needed means that tables may lack some of its entries.
	needed bool
	// clean means that Open would replay it and drop nothing.
	clean bool
	// fill means that its entries fill gaps; see Repairer.findFillers.
	fill bool
}

// scanLogs reads the needed logs for the report and the last sequence number, and keeps no entries.
func (r *Repairer) scanLogs(p *plan) error {
	r.reached = max(r.manifest.lastSeq, p.newest)
	if r.manifest.version == nil { // all tables are used
		r.reached = r.lastSeq
	}
	for _, f := range r.ofKind(base.FileLog) {
		l := &foundLog{dirFile: f, needed: r.manifest.needsLog(f.Num)}
		l.line = &File{Name: f.name, Fate: unused, Level: -1, Bytes: uint64(f.Size),
			Reason: "not in use: according to the MANIFEST, tables have its entries"}
		r.logs = append(r.logs, l)
		if !l.needed {
			continue
		}
		l.line.Fate, l.line.Reason = rewritten, "its entries were written to tables"
		if err := r.readLog(l, nil); err != nil {
			return err
		}
		l.clean = l.line.Damage == ""
	}
	return nil
}

// logEntry is called for each entry of a log. The slices are valid during the call.
type logEntry func(seq uint64, kind base.Kind, key, value []byte) error

// readLog calls fn for every readable entry of a log. If fn is nil, it fills in the line of the report instead.
//
// It includes records after damage. Open refuses such a log, because the result is a state that the
// database never had, but a repair keeps all readable entries.
func (r *Repairer) readLog(l *foundLog, fn logEntry) error {
	path := r.path(l.name)
	file, err := r.fs.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	var damage noteDamage = func(err error, blocks uint64, bytes int64) {
		if l.line.Damage == "" {
			l.line.Damage = base.InFile(err, path, -1).Error()
		}
		l.line.BlocksLost += blocks
		l.line.BytesLost += uint64(bytes)
	}
	if fn != nil {
		damage = func(error, uint64, int64) {}
	}
	next := uint64(0)      // the minimum sequence number of the next record
	undecoded := uint64(0) // bytes of later records that are not batches
	log := wal.NewReader(file, l.Size, wal.ReaderOptions{
		Plausible: func(record []byte, lost int64) bool {
			return batch.Plausible(record, next, uint64(lost)+undecoded)
		},
	})
	for {
		record, err := log.Next()
		switch {
		case err == io.EOF:
			return nil
		case errors.Is(err, base.ErrCorruption):
			if r.skipDamage(l, log, err, damage) {
				continue
			}
			return nil
		case err != nil:
			return base.InFile(err, path, -1)
		}
		if last, ok := batch.ReadPreamble(log, record); ok {
			if fn == nil && l.needed {
				r.checkPreamble(last, damage)
			}
			continue
		}
		after, _, err := batch.Check(record)
		if errors.Is(err, base.ErrNewer) {
			return base.InFile(err, path, log.Offset())
		}
		if err != nil {
			r.report.Damaged = r.report.Damaged || l.needed
			damage(base.InFile(err, path, log.Offset()), 1, int64(len(record)))
			undecoded += uint64(len(record))
			continue
		}
		h, _ := batch.NewReader(record)
		if h.Seq < next {
			damage(base.Corruptf("batch", log.Offset(), "its sequence is %d, want at least %d", h.Seq, next), 0, 0)
		}
		next, undecoded = after, 0
		if fn == nil {
			l.line.Blocks++
			l.line.Entries += uint64(h.Count)
			if h.Count > 0 {
				r.lastSeq, r.reached = max(r.lastSeq, after-1), max(r.reached, after-1)
			}
			continue
		}
		if err := EachEntry(record, fn); err != nil {
			return err
		}
	}
}

// noteDamage adds damage to the line of a log in the report.
type noteDamage func(err error, blocks uint64, bytes int64)

// skipDamage continues a log after its damage, and reports whether there is something after it.
func (r *Repairer) skipDamage(l *foundLog, log *wal.Reader, err error, damage noteDamage) bool {
	tail := log.Tail()
	if log.Skip() {
		r.report.Damaged = r.report.Damaged || l.needed
		damage(err, 0, tail.Resume-tail.Offset)
		return true
	}
	r.report.Damaged = r.report.Damaged || l.needed && tail.BitFlip
	if tail.Dropped > 0 { // not only zeros
		damage(err, 0, tail.Dropped)
	}
	return false
}

// checkPreamble notes the operations up to the last one before a log that nothing has.
func (r *Repairer) checkPreamble(last uint64, damage noteDamage) {
	if missing, ok := r.missesUpTo(last); ok {
		damage(base.Corruptf("log", 0, "operations %d to %d are missing: they were durable before this log began, "+
			"but no table in use and no earlier log has them", missing.first, missing.last), 0, 0)
	}
}

// EachEntry calls fn with the entries of a batch that batch.Check accepts.
func EachEntry(record []byte, fn logEntry) error {
	b, err := batch.NewReader(record)
	for err == nil {
		kind, key, value, seq, ok, nextErr := b.Next()
		if !ok {
			return nextErr
		}
		err = fn(seq, kind, key, value)
	}
	return err
}
