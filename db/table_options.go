package db

import (
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/expiry"
	"github.com/sievedb/sievedb/internal/disk/filterplan"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/disk/tables"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/internal/work/compact"
	"github.com/sievedb/sievedb/memtable"
	"github.com/sievedb/sievedb/sstable"
)

// cacheOptions returns the options of the open-table cache of the database in dir on fsys. o has all
// defaults filled in.
func (o *Options) cacheOptions(dir tables.Directory, blocks *sstable.BlockCache, opened func(*version.FileMeta, sstable.FilterStatus)) tables.CacheOptions {
	plan := o.filterPlanOptions()
	return tables.CacheOptions{
		FS: dir.FS, Dir: dir.Path, MaxOpen: o.Cache.MaxOpenFiles, Opened: opened, WantSizes: plan.HasBudget(),
		Reader: sstable.ReaderOptions{
			Comparer: o.Comparer, Policies: o.readPolicies(), RangePolicies: o.Filters.RangePolicies, Cache: blocks,
		},
	}
}

// tableWriters make the writers of new tables.
type tableWriters struct {
	inForce *optionsInForce
	dir     tables.Directory
	set     *manifest.Set
	expiry  *expiry.Policy
	plan    *filterplan.Planner // of filters
	spares  *tables.SpareWriters
}

// decideCompression decides about DefaultCompression before the first table is written. Open does not, because it
// costs some reads, and a store that is only read, or that writes little, needs no decision.
func (w *tableWriters) decideCompression() {
	w.inForce.deciding.Do(func() {
		now := w.inForce.options.Load()
		if now.full.ReadOnly || now.passed.Tables.Compression != DefaultCompression {
			return // SetOptions of this program may choose the default later, and then it means Snappy
		}
		files, err := manifest.ListDir(w.dir.FS, w.dir.Path)
		if err != nil || !tables.WithoutSnappy(&w.dir, files.All) {
			return
		}
		w.inForce.noSnappy.Store(true)
		w.inForce.leaveSnappyOut(w.dir.Logger)
	})
}

// writer returns a writer of tables for a level, whose filters have bits a key, if that depends on the level.
func (w *tableWriters) writer(level int, bits filterplan.Bits) *tables.Writer {
	o := w.ofLevel(level, bits)
	now := &w.inForce.full().Tables
	o.Separate, o.ValueCompression = now.SeparateValues, now.compressionFor(version.NumLevels-1)
	if w.expiry != nil {
		o.Stays = w.expiry.Under // the time of a value that may expire is at its beginning
	}
	return tables.NewWriter(o)
}

// ofLevel returns the options of tables of a level that have all of their values.
func (w *tableWriters) ofLevel(level int, bits filterplan.Bits) tables.WriterOptions {
	o := w.options(bits)
	o.Table.Compression = w.inForce.full().Tables.compressionFor(level)
	return o
}

func (w *tableWriters) options(bits filterplan.Bits) tables.WriterOptions {
	w.decideCompression()
	o := tables.WriterOptions{
		Dir: w.dir, Kind: base.FileTable, NewFileNum: w.set.NewFileNum,
		Table: w.tableOptions(w.inForce.full()), Spares: w.spares,
	}
	if w.plan.ByLevel() {
		o.Filter = bits.Policies(o.Table.Filter)
	}
	return o
}

// tableOptions returns the options of new tables. o has all defaults filled in.
func (w *tableWriters) tableOptions(o *Options) sstable.WriterOptions {
	t := o.tableOptions()
	t.Expiry, t.ExpiryKeys = w.expiry.ForTables()
	return t
}

// tuning returns the options of compactions that can change. o has all defaults filled in.
func (w *tableWriters) tuning(o *Options) compact.Tuning {
	return compact.Tuning{
		MaxConcurrent: o.Compaction.MaxConcurrent, L0Trigger: o.Compaction.L0Trigger, L0SlowdownTrigger: o.Compaction.L0Slowdown,
		MaxLevelBase: uint64(o.Compaction.MaxLevelBase), TableSize: uint64(o.Tables.Size), LargestTable: o.largestTable(),
		MaxBytesPerSecond: o.Compaction.MaxBytesPerSecond, Table: w.tableOptions(o), Filter: o.Compaction.Filter,
	}
}

// loadTableSize returns the size in bytes of the next table of a load that has written that many bytes.
func (w *tableWriters) loadTableSize(written uint64) uint64 {
	o := w.inForce.full()
	if o.Tables.Size > 0 {
		return uint64(o.Tables.Size)
	}
	v := w.set.RefCurrent()
	defer v.Unref()
	return version.LoadTableSize(v.LastLevelBytes()+written, o.largestTable())
}

// writeMemtable writes the entries of mem as a table, and as value tables if values are separated, synced, with their
// directory entries durable. It adds them to edit and returns them, the table first; nil if mem is empty. After an
// error no file is left.
func (w *tableWriters) writeMemtable(mem *memtable.Memtable, edit *manifest.Edit) ([]*version.FileMeta, error) {
	mem.Settle()
	if mem.Len() == 0 {
		return nil, nil
	}
	out := w.writer(0, w.plan.FlushBits(mem.Len()))
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

// largestTable bounds the size of tables that grow with the database, in bytes: a sixteenth of Cache.Memory, so that
// the index and the filters of a table, again about a sixteenth of it, are a small part of that. What does not fit is
// read again, and then a lookup waits for all of one table. o has all defaults filled in.
func (o *Options) largestTable() uint64 {
	return uint64(max(o.Cache.Memory/16, version.LeastTableSize))
}

// spareWriters returns how many table writers are kept for reuse, one of them for the flush, and
// the memory that each may keep, in bytes. For tables of entries of 100 bytes it needs a twelfth of
// their size; long keys, or many in one batch, need more.
func (o *Options) spareWriters() (maxIdle int, maxKept uint64) {
	return o.Compaction.MaxConcurrent + 1, 4<<20 + uint64(max(int64(o.Memtables.Size), o.Tables.Size))/4
}
