package db

import (
	"github.com/sievedb/sievedb/internal/base/expiry"
	"github.com/sievedb/sievedb/internal/disk/batch"
	"github.com/sievedb/sievedb/internal/disk/filterplan"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/disk/tables"
	"github.com/sievedb/sievedb/internal/read/counters"
	"github.com/sievedb/sievedb/internal/read/lookup"
	"github.com/sievedb/sievedb/internal/work/compact"
	"github.com/sievedb/sievedb/internal/write/bulk"
	"github.com/sievedb/sievedb/internal/write/commit"
	"github.com/sievedb/sievedb/internal/write/txn"
)

// This is all that tests see of a DB besides what programs see. What nothing uses any more goes.

func (d *DB) State() *lookup.State                   { return d.state() }
func (d *DB) Committer() *commit.Committer           { return d.commit }
func (d *DB) Scheduler() *compact.Scheduler          { return d.compactor }
func (d *DB) Opts() *Options                         { return &d.opts }
func (d *DB) Present() *Options                      { return d.inForce.full() }
func (d *DB) TableCache() *tables.Cache              { return d.tables }
func (d *DB) Directory() tables.Directory            { return d.files }
func (d *DB) Finder() *lookup.Finder                 { return &d.finder }
func (d *DB) Pins() *lookup.Snapshots                { return &d.snapshots }
func (d *DB) Untraced() *txn.Untraced                { return &d.txns.untraced }
func (d *DB) Recent() *txn.Recent                    { return &d.txns.recent }
func (d *DB) Turns() *txn.Turns                      { return &d.txns.turns }
func (d *DB) Obsolete() *tables.Obsolete             { return d.flusher.Obsolete }
func (d *DB) Set() *manifest.Set                     { return d.set }
func (d *DB) Coordinator() *bulk.Coordinator         { return d.bulk }
func (d *DB) Expiry() *expiry.Policy                 { return d.scans.Expiry }
func (d *DB) Spares() *tables.SpareWriters           { return d.writers.spares }
func (d *DB) Plan() *filterplan.Planner              { return d.writers.plan }
func (d *DB) RangeCounters() *counters.Ranges        { return d.counters.ranges }
func (d *DB) Closing() <-chan struct{}               { return d.stop.closing }
func (d *DB) IsClosed() bool                         { return d.closed.Load() }
func (b *Batch) Content() *batch.Batch               { return &b.content }
func (o *Options) WithDefaults() Options             { c, _ := o.withDefaults(); return c }
func (o *Options) ToRecord() *manifest.Options       { return o.toRecord() }
func (o *Options) SpareWriters() (int, uint64)       { return o.spareWriters() }
func (o *CacheOptions) BesideBlocks() (int64, int64) { return o.besideBlocks() }
func (o *CacheOptions) TableMemory() int64           { return o.tableMemory() }

func (t *Transaction) Reads() *txn.Reads        { return &t.reads }
func (t *Transaction) Committer() txn.Committer { return t.committer() }
func (t *Transaction) Examine() (uint64, error) { return txnStore{t}.Examine() }
func (d *DB) Observing() int32                  { return d.listenerCalls.observer.Observing() }

const (
	ObserveEvery           = observeEvery
	BlockShare             = blockShare
	MinMemory              = minMemory
	DefaultMaxManifestSize = defaultMaxManifestSize
)

var DefaultFilter = defaultFilter
