package db

// reportBackground logs the failure of background work, if err is one, and notifies the listener.
func (d *DB) reportBackground(err error) {
	if err != nil {
		d.opts.Logger.Error("background work failed", "err", err)
		notify(d, d.opts.EventListener.BackgroundError, err)
	}
}
