package db

import (
	"time"
)

// reportBackground logs the failure of background work, if err is one, and notifies the
// listener.
func (d *DB) reportBackground(err error) {
	if err != nil {
		d.opts.Logger.Error("background work failed", "err", err)
		notify(d, d.opts.EventListener.BackgroundError, err)
	}
}

// pause waits, and reports whether the store may still write afterwards.
func (d *DB) pause(wait time.Duration) bool {
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-d.stop.begun:
		return false
	}
}
