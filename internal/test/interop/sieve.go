package interop

import (
	"context"
	"errors"
	"fmt"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/filter/rangefilter"
)

// SieveDB is the store of this project.
type SieveDB struct{}

// Name returns "sievedb".
func (SieveDB) Name() string { return "sievedb" }

// Open opens dir.
func (SieveDB) Open(dir string, o Options) (DB, error) {
	options, err := sieveOptions(o)
	if err != nil {
		return nil, err
	}
	d, err := db.Open(dir, options)
	if err != nil {
		return nil, err
	}
	return &sieveDB{sieveView{d}, d, dir, 0}, nil
}

func sieveOptions(o Options) (*db.Options, error) {
	options := &db.Options{
		Filters:    db.FilterOptions{Policy: filter.None, ForGoleveldb: o.BothFilterNames},
		Memtables:  db.MemtableOptions{Size: o.WriteBufferSize},
		Tables:     db.TableOptions{BlockSize: o.BlockSize, Size: int64(o.TableSize)},
		Compaction: db.CompactionOptions{MaxLevelBase: int64(o.LevelBase)}, ErrorIfMissing: o.MustExist,
	}
	if o.BloomBits != 0 {
		options.Filters.Policy = sieveFilter(o)
	}
	if o.RangeFilters {
		options.Filters.RangePolicies = []rangefilter.Policy{
			rangefilter.NewPrefix(rangefilter.FixedPrefix(5), 10), rangefilter.NewGrafite(rangefilter.FixedPrefix(3), rangefilter.Decimal(5), 16),
		}
	}
	if o.NoBlockCache {
		options.Cache.Size = -1
	}
	switch o.Compression {
	case "", Snappy:
	case None:
		options.Tables.Compression = db.NoCompression
	case Zstd:
		options.Tables.Compression = db.ZstdCompression
	default:
		return nil, fmt.Errorf("interop: sievedb knows no compression %q", o.Compression)
	}
	return options, nil
}

func sieveFilter(o Options) filter.Policy {
	switch o.FilterKind {
	case CacheLineFilter:
		return filter.NewCacheLineBloomPolicy(o.BloomBits)
	case LevelDBFilter:
		return filter.NewBloomPolicy(o.BloomBits)
	case FuseFilter:
		return filter.FusePolicy{}
	case FuseAndLevelDBFilters:
		return filter.Several(filter.FusePolicy{}, filter.NewBloomPolicy(o.BloomBits))
	}
	return filter.NewDualBloomPolicy(o.BloomBits)
}

type sieveDB struct {
	sieveView
	d     *db.DB
	dir   string
	reads uint64
}

func (s *sieveDB) Write(ops []Op, sync bool) error {
	var batch db.Batch
	for _, op := range ops {
		if op.Delete {
			batch.Delete(op.Key)
		} else {
			batch.Put(op.Key, op.Value)
		}
	}
	return s.d.Apply(&batch, &db.WriteOptions{NoSync: !sync})
}

func (s *sieveDB) Snapshot() (Snapshot, error) {
	snapshot := s.d.NewSnapshot()
	return sieveSnapshot{sieveView{snapshot}, snapshot}, nil
}

func (s *sieveDB) Flush() error { return s.d.Flush() }

// Compact compacts [start, limit]; SieveDB's own limit is exclusive.
func (s *sieveDB) Compact(start, limit []byte) error {
	if limit != nil {
		limit = append(append([]byte{}, limit...), 0)
	}
	return s.d.Compact(context.Background(), start, limit)
}

func (s *sieveDB) Tables() ([]int, error) {
	var counts []int
	for _, level := range s.d.Metrics().Levels {
		counts = append(counts, level.Tables)
	}
	return counts, nil
}

func (s *sieveDB) TableReads() (uint64, error) {
	m := s.d.Metrics().Total()
	reads := m.IndexReads + m.BlocksFromDisk - s.reads
	s.reads += reads
	return reads, nil
}

func (s *sieveDB) Close() error { return s.d.Close() }

func (s *sieveDB) Kill(into string) error {
	return errors.Join(copyLiveDir(into, s.dir), s.d.Close())
}

type sieveReader interface {
	Get(key []byte) ([]byte, error)
	NewIterator(o *db.IterOptions) (*db.Iterator, error)
}

type sieveView struct{ r sieveReader }

func (v sieveView) Get(keys [][]byte) ([][]byte, error) {
	values := make([][]byte, len(keys))
	for i, key := range keys {
		value, err := v.r.Get(key)
		if err == nil {
			values[i] = append([]byte{}, value...)
		} else if !errors.Is(err, db.ErrNotFound) {
			return nil, err
		}
	}
	return values, nil
}

func (v sieveView) Scan(backward bool) (entries []Entry, err error) {
	it, err := v.r.NewIterator(nil)
	if err != nil {
		return nil, err
	}
	start, step := it.First, it.Next
	if backward {
		start, step = it.Last, it.Prev
	}
	for ok := start(); ok; ok = step() {
		entries = append(entries, copyEntry(it.Key(), it.Value()))
	}
	return entries, it.Close()
}

func (v sieveView) Seek(keys [][]byte) ([]*Entry, error) {
	it, err := v.r.NewIterator(nil)
	if err != nil {
		return nil, err
	}
	entries := make([]*Entry, len(keys))
	for i, key := range keys {
		if it.SeekGE(key) {
			e := copyEntry(it.Key(), it.Value())
			entries[i] = &e
		}
	}
	return entries, it.Close()
}

type sieveSnapshot struct {
	sieveView
	s *db.Snapshot
}

func (s sieveSnapshot) Release() error { return s.s.Close() }
