package db

import (
	"sync"
	"time"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/read/lookup"
	"github.com/sievedb/sievedb/internal/work/compact"
	"github.com/sievedb/sievedb/memtable"
)

// flushLoop writes immutable memtables as tables, oldest first, until the store closes. The
// logs contain the remaining ones. The log of a memtable is removed during the flush of the
// next one, if one waits: freeing 16 MiB of a disk takes 6 ms and more.
func (d *DB) flushLoop() {
	_ = d.commit.Guard("a flush", func() error { d.flushAll(); return nil })
}

// flushAll is the work of flushLoop.
func (d *DB) flushAll() {
	var removal sync.WaitGroup // of one log at most
	defer removal.Wait()
	backoff := compact.Backoff{}
	defer d.compactor.EndFlush()
	for {
		d.compactor.EndFlush() // with what came after the last one
		mem, next := d.commit.NextToFlush()
		if mem == nil {
			return
		}
		size, log := mem.Capacity(), mem.LogNum
		d.compactor.BeginFlush()
		err := d.flushMemtable(mem, next)
		d.commit.EndFlush(err)
		d.reportBackground(base.NoSpace(err))
		if err == nil {
			backoff = compact.Backoff{}
			removal.Wait()
			base.GoIn(&removal, func() {
				_ = d.commit.Guard("the removal of a log", func() error { d.retireLog(log); return nil })
			})
			if len(d.state().Imm) == 0 {
				removal.Wait() // so that a caller that waited for all flushes finds no unneeded log
			}
			d.keepReserve()
			d.share.Trim(d.writers.spares)
			d.share.Memory().Flushed(size)
			continue
		}
		if !d.commit.Pause(backoff.Next(err)) {
			return
		}
	}
}

// flushMemtable writes mem to a table of level 0 and records that. mem's log is not needed afterwards.
func (d *DB) flushMemtable(mem *lookup.Memtable, nextLog uint64) error {
	start := time.Now()
	edit := &manifest.Edit{
		LogNum: manifest.Num(nextLog),
		// Not the newest sequence number assigned: goleveldb drops records of the live log
		// whose numbers are below that of an edit.
		LastSeq: manifest.Num(mem.MaxSeq),
	}
	info := FlushInfo{}
	written, err := d.writeMemtable(mem.Memtable, edit)
	for i, f := range written {
		if i == 0 {
			info.FileNum, info.Entries = f.Num, uint64(mem.Len())
		}
		info.Bytes += f.Size
	}
	if err == nil {
		if len(edit.Added) > 0 && mem.Gain != nil {
			edit.Added[0].File.SetGain(mem.Gain)
		}
		took := time.Since(start)
		err = d.commit.ApplyEdit(edit, written, func(s *lookup.State) { d.commit.Retire(s, took) })
	}
	info.Duration, info.Err = time.Since(start), err
	notify(d, d.opts.EventListener.FlushEnd, info)
	if err != nil {
		return errors.Wrap(err, "sievedb: flushing a memtable")
	}
	d.counters.flushes.Add(1)
	d.counters.flushBytes.Add(info.Bytes)
	d.opts.Logger.Info("flushed", "table", info.FileNum, "bytes", info.Bytes, "entries", info.Entries, "took", info.Duration)
	d.obsolete.Remove()
	if mem.Hinders {
		d.compactor.Relieve()
	}
	d.compactor.Schedule()
	return nil
}

// writeMemtable writes the entries of mem as a table, and as value tables if values are separated, synced, with their
// directory entries durable. It adds them to edit and returns them, the table first; nil if mem is empty. After an
// error no file is left.
func (d *DB) writeMemtable(mem *memtable.Memtable, edit *manifest.Edit) ([]*manifest.FileMeta, error) {
	mem.Settle()
	if mem.Len() == 0 {
		return nil, nil
	}
	out := d.newTableWriter(0, d.writers.plan.FlushBits(mem.Len()))
	var turn base.Turn
	for ikey, value := range mem.All() {
		turn.Worked(len(ikey) + len(value))
		if err := out.Add(ikey, value); err != nil {
			out.Abandon()
			return nil, err
		}
	}
	if _, err := out.Finish(); err != nil {
		return nil, err
	}
	return out.AddTo(edit, 0), nil
}
