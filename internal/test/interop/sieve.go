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
	return &sieveDB{sieveView(d), d, dir, 0}, nil
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
	view
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
	return sieveSnapshot{sieveView(snapshot), snapshot}, nil
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

type sieveCursor struct{ *db.Iterator }

func (c sieveCursor) Seek(key []byte) bool { return c.SeekGE(key) }

// sieveView reads the store or a snapshot.
func sieveView(r sieveReader) view {
	return view{r.Get, db.ErrNotFound, func() (cursor, func() error, error) {
		it, err := r.NewIterator(nil)
		if err != nil {
			return nil, nil, err
		}
		return sieveCursor{it}, it.Close, nil
	}}
}

type sieveSnapshot struct {
	view
	s *db.Snapshot
}

func (s sieveSnapshot) Release() error { return s.s.Close() }
