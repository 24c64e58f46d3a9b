package db

import (
	"context"
	"time"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/tables"
	"github.com/sievedb/sievedb/report"
)

// openTablesAhead begins openAhead if the options say so.
func (d *DB) openTablesAhead() {
	if d.opts.Cache.OpenAhead {
		base.GoIn(&d.background, d.openAhead)
	}
}

// openAhead opens the tables that existed at Open, in the order in which lookups consult them, until the limit of
// Options.Cache.OpenAhead is reached or the store closes. It holds the version, so no table is removed meanwhile.
func (d *DB) openAhead() {
	_ = d.commit.Guard("the opening of tables ahead", func() error { d.openAll(); return nil })
}

// openAll is the work of openAhead.
func (d *DB) openAll() {
	info, ended := d.openUntil(d.commit.Ending(), false)
	if ended {
		return
	}
	if info.Failed > 0 {
		d.opts.Logger.Warn("tables could not be opened ahead of lookups", "tables", info.Failed, "first", info.Err)
	}
	notify(&d.listenerCalls, d.opts.EventListener.TablesOpenedAhead, info)
}

// openUntil opens tables while there is room for them, until end is closed. If closed is set, those that are not open.
func (d *DB) openUntil(end <-chan struct{}, closed bool) (info report.OpenAheadInfo, ended bool) {
	s := d.finder.Ref()
	defer s.Version.Unref()
	began := time.Now()
	defer func() { info.Duration = time.Since(began) }()
	for _, level := range s.Version.Levels {
		for _, f := range level.Files {
			if closed && tables.Of(f).Peek() != nil {
				continue
			}
			if !d.tables.HasRoom() {
				return info, false
			}
			select {
			case <-end:
				return info, true
			default:
			}
			countOpened(&info, d.tables.OpenWhole(f))
		}
	}
	return info, false
}

// OpenTables opens the tables that are not open, until all or Options.Cache.MaxOpenFiles are, as
// Options.Cache.OpenAhead does after Open. It is for programs that show filters before lookups need them, of tables
// that were written or found since. A table that cannot be opened is counted, and is no error. If ctx is done, it
// returns its error, with what was opened.
func (d *DB) OpenTables(ctx context.Context) (report.OpenAheadInfo, error) {
	if err := d.guardUnder(ctx, "OpenTables", 0); err != nil {
		return report.OpenAheadInfo{}, err
	}
	info, ended := d.openUntil(ctx.Done(), true)
	if ended {
		return info, ctx.Err()
	}
	return info, nil
}

func countOpened(i *report.OpenAheadInfo, err error) {
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
