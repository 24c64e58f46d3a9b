package db

import (
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
)

// changeable are the options that SetOptions may change; a name with a dot at its end means all of a group.
var changeable = []string{"Cache.Size", "Cache.Memory", "Cache.MaxOpenFiles", "Compaction.", "Memtables.", "Tables."}

// optionsInForce are the options that a DB has now.
type optionsInForce struct {
	mu      sync.Mutex // held by SetOptions, so that of two calls the later one counts as a whole
	options atomic.Pointer[optionsNow]
	// noSnappy says that DefaultCompression is none in this directory. It changes only in deciding.
	noSnappy atomic.Bool
	deciding sync.Once
}

// optionsNow are the options in force, as they were passed and with the defaults filled in. They are immutable.
type optionsNow struct{ passed, full Options }

// full returns the options in force with all defaults filled in. Those that SetOptions does not change are in DB.opts as
// well.
func (o *optionsInForce) full() *Options { return &o.options.Load().full }

// leaveSnappyOut makes DefaultCompression none if the directory has no Snappy. SetOptions may store other options
// meanwhile, and calls it afterwards.
func (o *optionsInForce) leaveSnappyOut(logger *slog.Logger) {
	for o.noSnappy.Load() {
		now := o.options.Load()
		if now.passed.Tables.Compression != DefaultCompression || now.full.Tables.Compression == NoCompression {
			return
		}
		next := *now
		next.full.Tables.Compression = NoCompression
		if o.options.CompareAndSwap(now, &next) {
			logger.Info("existing tables have no Snappy blocks, so new ones are not compressed; Options.Tables.Compression decides otherwise")
			return
		}
	}
}

// Options returns a copy of the options in force: those of Open or of the last SetOptions, in which the zero value of a
// field means its default. Three fields have the state of the store instead of what was passed:
//
//   - LogDir is the directory of the logs, absolute, or empty if it is that of the database. Of a
//     follower it is the one that OpenFollower found, even if the logs have been moved since.
//   - ReadOnly is set in a follower too, and after SetReadOnly. A failure that ended all writes does
//     not set it: Metrics.BackgroundError has that.
//   - Changes is what is kept, which the database may have recorded before.
//
// It may be called at any time. Of a nil or zero DB it returns the zero Options.
func (d *DB) Options() Options {
	if d == nil || d.inForce == nil {
		return Options{}
	}
	o := d.inForce.options.Load().passed.copied()
	o.LogDir = d.dir.Logs.Dir()
	o.ReadOnly = d.opts.ReadOnly || d.commit.Frozen()
	o.Changes = d.opts.Changes
	return o
}

// SetOptions changes options while the store is open. Begin with those in force:
//
//	o := store.Options()
//	o.Compaction.MaxConcurrent = 4
//	err := store.SetOptions(&o)
//
// Cache.Size, Cache.Memory, Cache.MaxOpenFiles and all fields of Compaction, Memtables and Tables can be changed.
// Defaults that depend on them follow. The options are checked as Open checks them. If one is out of
// range, or another field than these was changed, the error names it and nothing changes. The database
// records Tables with the next table that is written, for RecordedOptions; the next Open gets its own options.
//
// A smaller cache, less memory and a smaller number of open tables are in force when SetOptions returns. Limits of
// level 0 and of waiting memtables apply to the next write, and wake writers that wait. Compactions that run keep what
// they began with; a smaller MaxConcurrent is reached as they end. Memtables.Size applies to memtables that are made
// from now on: the active one, and one that may be ready to replace it, keep their sizes. Tables applies to tables
// begun from now on. The memory of filters is planned (Filters.Budget) with the values of Open.
//
// It may be called from any goroutine, and from a function of the EventListener. Of two concurrent
// calls, the later one counts as a whole. A closed store returns ErrClosed.
func (d *DB) SetOptions(o *Options) error {
	if d == nil || d.closed.Load() {
		return ErrClosed
	}
	now, passed := d.Options(), d.inForce.options.Load().passed
	asked := o.copied()
	if asked.LogDir == now.LogDir { // what Options returned is no change, and is checked as what Open was passed
		asked.LogDir = passed.LogDir
	}
	if asked.ReadOnly == now.ReadOnly {
		asked.ReadOnly = passed.ReadOnly
	}
	if asked.Changes == now.Changes {
		asked.Changes = passed.Changes
	}
	next, err := newOptionsNow(&asked)
	if err != nil {
		return err
	}
	other, changed := base.ChangedFields(passed, next.passed, changeable...), base.ChangedFields(*d.inForce.full(), next.full)
	other = slices.DeleteFunc(other, func(name string) bool { return !slices.Contains(changed, name) }) // an explicit default is no change
	if len(other) > 0 {
		return errors.Newf("sievedb: SetOptions: Options.%s cannot be changed while the store is open; begin with the copy that DB.Options returns",
			strings.Join(other, " and Options."))
	}
	d.inForce.mu.Lock()
	defer d.inForce.mu.Unlock()
	next.full.ReadOnly = d.opts.ReadOnly
	d.inForce.options.Store(next)
	d.recordOptions()
	d.inForce.leaveSnappyOut(d.opts.Logger)
	full := d.inForce.full()
	d.tables.Blocks().SetCapacity(full.Cache.Size)
	d.tables.SetBeside(full.Cache.besideBlocks())
	if d.share == nil {
		d.tables.SetMemory(full.Cache.tableMemory())
	}
	d.tables.SetMaxOpen(full.Cache.MaxOpenFiles)
	d.writers.spares.Resize(full.spareWriters())
	d.compactor.Tune(d.writers.tuning(full))
	d.commit.SetLimits(full.commitLimits())
	return nil
}

func newOptionsNow(o *Options) (*optionsNow, error) {
	passed := o.copied()
	if err := passed.Cache.validateMemory(passed.Resources); err != nil {
		return nil, err
	}
	full, err := o.withDefaults()
	if err == nil {
		err = full.validate()
	}
	return &optionsNow{passed, full}, err
}

func newOptionsInForce(now *optionsNow) *optionsInForce {
	o := new(optionsInForce)
	o.options.Store(now)
	return o
}
