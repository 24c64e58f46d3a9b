package db

import (
	"context"
	"time"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/dbdir"
)

// A full disk ends a log as any failure does, but it does not end writes. Nothing is appended
// after a record that may be cut short, and no sync is repeated. The memtable has all
// acknowledged writes: it is flushed, and once the MANIFEST says that the old log is not
// needed, a new log replaces it. Until there is space for that, each write fails with
// ErrNoSpace and tries again.

// logFailed records that a write or sync of the log failed. Only the leader runs it.
func (d *DB) logFailed(err error) {
	if !base.IsNoSpace(err) {
		d.endWrites(err)
		return
	}
	err = base.NoSpace(err)
	d.log.full = err
	d.opts.Logger.Error("the disk is full; writes fail until there is space", "err", err)
	notify(d, d.opts.EventListener.BackgroundError, err)
}

// replaceLog makes a log that a full disk ended unnecessary and continues with another one.
// Until it succeeds no write may be accepted: the old log may end in the middle of a record,
// or lack unsynced records, and a record in a newer log would come after a hole. Only the
// leader runs it.
func (d *DB) replaceLog() error {
	if !d.log.replaced {
		if err := d.waitForMemtables(); err != nil {
			return err
		}
		if d.changes != nil {
			if err := d.changes.NoteFailed(d.log.logged, d.log.lastSeq, d.set.ManifestNum()); err != nil {
				return err
			}
		}
		next, err := d.takeSuccessor(0)
		if err != nil {
			return err
		}
		_ = d.log.w.Close() // it failed before, and its content is in the memtable
		d.switchLog(next, false)
		d.log.replaced = true
	}
	if err := d.waitForMemtables(); err != nil {
		return err
	}
	d.log.full, d.log.replaced = nil, false
	d.synced.Store(d.log.lastSeq)
	d.log.logged = d.log.lastSeq // the MANIFEST has that number now, and a preamble must not be below it
	if d.changes != nil {
		d.wakeReaders()
	}
	d.opts.Logger.Info("there is space again; writes continue")
	return nil
}

// How often a deletion is tried again once the reserve is free, and the pause after an attempt, which doubles: compactions
// may use the space first, and give it back when it does not suffice.
const (
	reserveAttempts = 8
	reservePause    = 10 * time.Millisecond
)

// withReserve calls what frees space. If the disk is too full for that, it frees the reserve and calls it again.
func (d *DB) withReserve(ctx context.Context, free func() error) error {
	err := free()
	if base.IsNoSpace(err) && (d.reserve.Free() || d.reserve.Used()) { // Open may have used it, and compactions have the space
		d.opts.Logger.Warn("the disk is full; the reserve is used to delete a range", "bytes", d.reserve.Size())
		for n := range reserveAttempts {
			d.mu.Lock()
			d.flushErr = nil // of an attempt without the reserve: the next one counts
			d.mu.Unlock()
			if err = free(); !base.IsNoSpace(err) || ctx.Err() != nil || !d.pause(reservePause<<n) {
				break
			}
		}
	}
	if err == nil {
		d.reserve.WantAgain()
	}
	return err
}

// beginReserve prepares the reserve when the store is open. freed says that Open has freed it.
func (d *DB) beginReserve(freed bool) {
	var err error
	switch {
	case d.opts.ReadOnly:
	case d.reserve == nil:
		err = dbdir.RemoveReserve(d.fs, d.dir)
	case freed:
		d.reserve.Freed()
	case d.opts.Limits.DiskReserve > 0:
		d.makeReserve(0)
	}
	if err != nil {
		d.opts.Logger.Warn("the reserve for a full disk cannot be removed", "err", err)
	}
}

// keepReserve begins to make the reserve if it is missing, and to remove it if the tables are few. Only the flush loop
// calls it, which does not wait: the file is as large as some memtables.
func (d *DB) keepReserve() {
	if d.reserve == nil {
		return
	}
	var tables uint64
	v := d.state().Version
	for i := range v.Levels {
		tables += v.Levels[i].Bytes
	}
	if d.reserve.Due(tables) {
		d.background.Go(func() { _ = d.guard("making the reserve", func() error { d.makeReserve(tables); return nil }) })
	}
}

// makeReserve makes the reserve if it is missing, or removes it if there are few tables, in bytes.
func (d *DB) makeReserve(tables uint64) {
	if err := d.reserve.Keep(tables, d.closed.Load); err != nil {
		d.opts.Logger.Warn("the reserve for a full disk cannot be made; a later flush tries again", "err", err)
	}
}

// waitForMemtables waits until every immutable memtable is in a table, or the
// last attempt at that has failed.
func (d *DB) waitForMemtables() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for len(d.state().Imm) > 0 {
		switch err := d.writeErr(); {
		case d.closed.Load():
			return ErrClosed
		case err != nil:
			return err
		case d.flushErr != nil:
			return errors.Wrap(d.flushErr, "sievedb: a memtable must be flushed before the write, and its flush fails")
		}
		d.cond.Wait()
	}
	return nil
}
