package db

import (
	"context"
	"time"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/dbdir"
)

// How often a deletion is tried again once the reserve is free, and the pause after an attempt, which doubles:
// compactions may use the space first, and give it back when it does not suffice.
const (
	reserveAttempts = 8
	reservePause    = 10 * time.Millisecond
)

// withReserve calls what frees space. If the disk is too full for that, it frees the reserve and calls it again.
func (d *DB) withReserve(ctx context.Context, free func() error) error {
	err := free()
	if base.IsNoSpace(err) && (d.dir.Reserve.Free() || d.dir.Reserve.Used()) { // Open may have used it, and compactions have the space
		d.opts.Logger.Warn("the disk is full; the reserve is used to delete a range", "bytes", d.dir.Reserve.Size())
		for n := range reserveAttempts {
			d.commit.ForgetFlushError() // of an attempt without the reserve: the next one counts
			if err = free(); !base.IsNoSpace(err) || ctx.Err() != nil || !d.commit.Pause(reservePause<<n) {
				break
			}
		}
	}
	if err == nil {
		d.dir.Reserve.WantAgain()
	}
	return err
}

// beginReserve prepares the reserve when the store is open. freed says that Open has freed it.
func (d *DB) beginReserve(freed bool) {
	var err error
	switch {
	case d.opts.ReadOnly:
	case d.dir.Reserve == nil:
		err = dbdir.RemoveReserve(d.files.FS, d.files.Path)
	case freed:
		d.dir.Reserve.Freed()
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
	if d.dir.Reserve == nil {
		return
	}
	v := d.state().Version
	tables, _ := v.ValueBytes()
	for i := range v.Levels {
		tables += v.Levels[i].Bytes
	}
	if d.dir.Reserve.Due(tables) {
		base.GoIn(&d.background, func() { _ = d.commit.Guard("making the reserve", func() error { d.makeReserve(tables); return nil }) })
	}
}

// makeReserve makes the reserve if it is missing, or removes it if there are few tables, in bytes.
func (d *DB) makeReserve(tables uint64) {
	err := d.files.Verify()
	if err == nil {
		err = d.dir.Reserve.Keep(tables, d.closed.Load)
	}
	if err != nil {
		d.opts.Logger.Warn("the reserve for a full disk cannot be made; a later flush tries again", "err", err)
	}
}
