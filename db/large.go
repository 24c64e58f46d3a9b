package db

import (
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/batch"
	"github.com/sievedb/sievedb/internal/read/latency"
	"github.com/sievedb/sievedb/memtable"
)

// largeWrite is the size in bytes, key and value together, from which a Put makes no batch: it
// would be a copy of the value, and it is too large for any group.
const largeWrite = maxGroupBytes

// writeLarge commits one large entry from its caller's memory.
func (d *DB) writeLarge(kind base.Kind, key, value []byte, keep durability) error {
	switch {
	case d.closed.Load():
		return ErrClosed
	case d.opts.ReadOnly:
		return ErrReadOnly
	}
	if err := batch.CheckEntry(key, value); err != nil {
		return err
	}
	began := latency.Start(keep == onDisk, d.finder.VisibleSeq.Load())
	err := d.commit.run(d, &commitRequest{keep: keep, alone: func(d *DB) error {
		return d.commitLarge(kind, key, value, keep)
	}})
	d.latency.Put.End(began, keep == onDisk, err)
	return err
}

// commitLarge is commitEntry for a large entry. Only the leader runs it.
func (d *DB) commitLarge(kind base.Kind, key, value []byte, keep durability) error {
	memSize := uint64(memtable.EntrySize(len(key), len(value)))
	if err := d.prepareRecord(1, memSize, len(key)+len(value)); err != nil {
		return err
	}
	began := latency.Start(keep == onDisk, d.log.lastSeq)
	d.log.lastSeq++ // even if the write fails: its number is never used again
	seq, before := d.log.lastSeq, d.log.w.Size()
	record := batch.RecordParts(seq, kind, key, value)
	recordBytes := 0
	for _, part := range record {
		recordBytes += len(part)
	}
	err := d.beginLog()
	if err == nil {
		err = d.log.w.WriteRecordParts(record...)
	}
	if err := d.noteAppended(err, before, keep); err != nil {
		d.logFailed(err)
		return err
	}
	d.log.logged = seq
	if !d.state().Mem.AddWith(&d.log.inserter, seq, kind, key, value) {
		panic(batch.NoRoom)
	}
	if d.recent.Watched() {
		d.recent.NoteKey(d.finder.VisibleSeq.Load(), key)
	}
	d.show(1, recordBytes)
	d.latency.Commit.End(began, keep == onDisk, nil)
	d.retireOversized()
	return nil
}

// retireOversized starts the flush of a memtable that was made for one large write, if it uses
// more memory than all memtables otherwise do: nothing else fits into it, and it would wait
// for the next write. It does not wait for a flush in progress, because the write that made
// the memtable is done. Only the leader runs it.
func (d *DB) retireOversized() {
	o := &d.options().Memtables
	usual := memtable.ArenaSize(o.Size) * (o.MaxWaiting + 1)
	if mem := d.state().Mem; mem.Capacity() <= usual && !mem.Grant.Overdraft() {
		return
	}
	if d.stalled() || d.closed.Load() {
		return
	}
	if err := d.flushActive(); err != nil {
		// If the log has failed, the next write reports that.
		d.opts.Logger.Warn("the memtable of a large write stays until the next write", "err", err)
	}
}
