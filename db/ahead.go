package db

import (
	"time"
)

// openAhead opens the tables that there were at Open in the order in which lookups
// consult them, as Options.Cache.OpenAhead says, until as many are open as may be or
// the store closes. It holds the version: no table goes away meanwhile.
func (d *DB) openAhead() {
	defer d.background.Done()
	_ = d.guard("the opening of tables ahead", func() error { d.openAll(); return nil })
}

// openAll is the work of openAhead.
func (d *DB) openAll() {
	s := d.refState()
	defer s.version.Unref()
	began := time.Now()
	var info OpenAheadInfo
	for _, level := range s.version.Levels {
		for _, f := range level.Files {
			if !d.tables.HasRoom() {
				break
			}
			select {
			case <-d.closing:
				return
			default:
			}
			info.count(d.tables.OpenWhole(f))
		}
	}
	info.Duration = time.Since(began)
	if info.Failed > 0 {
		d.opts.Logger.Warn("tables could not be opened ahead of lookups", "tables", info.Failed, "first", info.Err)
	}
	tell(d, d.opts.EventListener.TablesOpenedAhead, info)
}

func (i *OpenAheadInfo) count(err error) {
	switch {
	case err == nil:
		i.Tables++
	case i.Failed == 0:
		i.Err = err
		fallthrough
	default:
		i.Failed++
	}
}
