package db

import (
	"time"
)

// openTablesAhead begins openAhead if the options say so.
func (d *DB) openTablesAhead() {
	if d.opts.Cache.OpenAhead {
		d.background.Add(1)
		go d.openAhead()
	}
}

// openAhead opens the tables that existed at Open, in the order in which lookups consult
// them, until the limit of Options.Cache.OpenAhead is reached or the store closes. It holds
// the version, so no table is removed meanwhile.
func (d *DB) openAhead() {
	defer d.background.Done()
	_ = d.commit.Guard("the opening of tables ahead", func() error { d.openAll(); return nil })
}

// openAll is the work of openAhead.
func (d *DB) openAll() {
	s := d.finder.Ref()
	defer s.Version.Unref()
	began := time.Now()
	var info OpenAheadInfo
	for _, level := range s.Version.Levels {
		for _, f := range level.Files {
			if !d.tables.HasRoom() {
				break
			}
			select {
			case <-d.commit.Ending():
				return
			default:
			}
			countOpened(&info, d.tables.OpenWhole(f))
		}
	}
	info.Duration = time.Since(began)
	if info.Failed > 0 {
		d.opts.Logger.Warn("tables could not be opened ahead of lookups", "tables", info.Failed, "first", info.Err)
	}
	notify(d, d.opts.EventListener.TablesOpenedAhead, info)
}

func countOpened(i *OpenAheadInfo, err error) {
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
