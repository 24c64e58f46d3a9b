package db

import (
	"context"
	"time"

	"github.com/sievedb/sievedb/internal/base"
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
