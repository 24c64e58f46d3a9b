package db

import (
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/filterplan"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/disk/tables"
	"github.com/sievedb/sievedb/memtable"
	"github.com/sievedb/sievedb/sstable"
)

// cacheOptions returns the options of the open-table cache of the database in dir on fsys. o has all
// defaults filled in.
func (o *Options) cacheOptions(dir tables.Directory, blocks *sstable.BlockCache, opened func(*manifest.FileMeta, sstable.FilterStatus)) tables.CacheOptions {
	plan := o.filterPlanOptions()
	return tables.CacheOptions{
		FS: dir.FS, Dir: dir.Path, MaxOpen: o.Cache.MaxOpenFiles, Opened: opened, WantSizes: plan.HasBudget(),
		Reader: sstable.ReaderOptions{
			Comparer: o.Comparer, Policies: o.readPolicies(), RangePolicies: o.Filters.RangePolicies,
			Cache: blocks,
		},
	}
}

// tableWriters is what new tables are written with.
type tableWriters struct {
	plan   *filterplan.Planner // of filters
	spares *tables.SpareWriters
}

// decideCompression decides about DefaultCompression before the first table is written. Open does not, because it
// costs some reads, and a store that is only read, or that writes little, needs no decision.
func (d *DB) decideCompression() {
	d.inForce.deciding.Do(func() {
		if d.opts.ReadOnly || d.inForce.options.Load().passed.Tables.Compression != DefaultCompression {
			return // SetOptions of this program may choose the default later, and then it means Snappy
		}
		files, err := manifest.ListDir(d.files.FS, d.files.Path)
		if err != nil || !tables.WithoutSnappy(&d.files, files.All) {
			return
		}
		d.inForce.noSnappy.Store(true)
		d.leaveSnappyOut()
	})
}

// leaveSnappyOut makes DefaultCompression none if the directory has no Snappy. SetOptions may store other options
// meanwhile, and calls it afterwards.
func (d *DB) leaveSnappyOut() {
	for d.inForce.noSnappy.Load() {
		now := d.inForce.options.Load()
		if now.passed.Tables.Compression != DefaultCompression || now.full.Tables.Compression == NoCompression {
			return
		}
		next := *now
		next.full.Tables.Compression = NoCompression
		if d.inForce.options.CompareAndSwap(now, &next) {
			d.opts.Logger.Info("existing tables have no Snappy blocks, so new ones are not compressed; Options.Tables.Compression decides otherwise")
			return
		}
	}
}

// newTableWriter returns a writer of tables for a level, whose filters have bits a key, if that depends on the level.
func (d *DB) newTableWriter(level int, bits filterplan.Bits) *tables.Writer {
	o := d.levelWriterOptions(level, bits)
	now := &d.options().Tables
	o.Separate, o.ValueCompression = now.SeparateValues, now.compressionFor(manifest.NumLevels-1)
	if d.scans.Expiry != nil {
		o.Stays = d.scans.Expiry.Under // the time of a value that may expire is at its beginning
	}
	return tables.NewWriter(o)
}

// levelWriterOptions are those of tables of a level that have all of their values.
func (d *DB) levelWriterOptions(level int, bits filterplan.Bits) tables.WriterOptions {
	o := d.tableWriterOptions(bits)
	o.Table.Compression = d.options().Tables.compressionFor(level)
	return o
}

func (d *DB) tableWriterOptions(bits filterplan.Bits) tables.WriterOptions {
	d.decideCompression()
	o := tables.WriterOptions{
		Dir: d.files, Kind: base.FileTable, NewFileNum: d.set.NewFileNum,
		Table: d.tableOptions(d.options()), Spares: d.writers.spares,
	}
	if d.writers.plan.ByLevel() {
		o.Filter = bits.Policies(o.Table.Filter)
	}
	return o
}

// spareWriters returns how many table writers are kept for reuse, one of them for the flush, and
// the memory that each may keep, in bytes. For tables of entries of 100 bytes it needs a twelfth of
// their size; long keys, or many in one batch, need more.
func (o *Options) spareWriters() (maxIdle int, maxKept uint64) {
	return o.Compaction.MaxConcurrent + 1, 4<<20 + uint64(max(int64(o.Memtables.Size), o.Tables.Size))/4
}

// writeMemtable writes the entries of mem as a table, and as value tables if values are separated, synced, with their
// directory entries durable. It adds them to edit and returns them, the table first; nil if mem is empty. After an
// error no file is left.
func (d *DB) writeMemtable(mem *memtable.Memtable, edit *manifest.Edit) ([]*manifest.FileMeta, error) {
	mem.Settle()
	if mem.Len() == 0 {
		return nil, nil
	}
	out := d.newTableWriter(0, d.writers.plan.FlushBits(mem.Len()))
	var turn base.Turn
	for ikey, value := range mem.All() {
		turn.Worked(len(ikey) + len(value))
		if err := out.Add(ikey, value); err != nil {
			out.Abandon()
			return nil, err
		}
	}
	if _, err := out.Finish(); err != nil {
		return nil, err
	}
	return out.AddTo(edit, 0), nil
}
