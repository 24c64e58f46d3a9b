package interop

import (
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"

	"github.com/syndtr/goleveldb/leveldb"
	"github.com/syndtr/goleveldb/leveldb/filter"
	"github.com/syndtr/goleveldb/leveldb/iterator"
	"github.com/syndtr/goleveldb/leveldb/opt"
	"github.com/syndtr/goleveldb/leveldb/storage"
	"github.com/syndtr/goleveldb/leveldb/util"
)

// GoLevelDB is github.com/syndtr/goleveldb.
type GoLevelDB struct{}

// Name returns "goleveldb".
func (GoLevelDB) Name() string { return "goleveldb" }

// Open opens dir.
func (GoLevelDB) Open(dir string, o Options) (DB, error) {
	files, err := storage.OpenFile(dir, false)
	if err != nil {
		return nil, err
	}
	counted := &countedStorage{Storage: files}
	d, err := leveldb.Open(counted, goleveldbOptions(o))
	if err != nil {
		return nil, errors.Join(err, files.Close())
	}
	return &goleveldbDB{goleveldbView(d), d, counted, dir}, nil
}

// Repair runs goleveldb's RecoverFile on the closed database in dir.
func (GoLevelDB) Repair(dir string, o Options) error {
	o.Paranoid = false // it would drop tables
	d, err := leveldb.RecoverFile(dir, goleveldbOptions(o))
	if err != nil {
		return err
	}
	return d.Close()
}

func goleveldbOptions(o Options) *opt.Options {
	options := &opt.Options{
		BlockSize: o.BlockSize, WriteBuffer: o.WriteBufferSize, CompactionTableSize: o.TableSize,
		CompactionTotalSize: o.LevelBase, CompactionTotalSizeMultiplier: o.LevelFactor,
		ErrorIfMissing: o.MustExist, DisableBlockCache: o.NoBlockCache,
		NoSync: true, // what an fsync is for is not tested here
	}
	if o.Compression == None {
		options.Compression = opt.NoCompression
	}
	if o.BloomBits != 0 {
		options.Filter = filter.NewBloomFilter(o.BloomBits)
		if o.StandardFilterName {
			options.Filter = standardName{options.Filter}
		}
	}
	if o.Paranoid {
		options.Strict = opt.StrictAll
		if o.ReservedLogs {
			options.Strict &^= opt.StrictJournal
		}
	}
	return options
}

// standardName is goleveldb's bloom filter under the name that LevelDB gives to
// the same bytes. goleveldb itself has no way to use LevelDB's filters, or ours:
// it looks for leveldb.BuiltinBloomFilter.
type standardName struct{ filter.Filter }

func (standardName) Name() string { return "leveldb.BuiltinBloomFilter2" }

type goleveldbDB struct {
	view
	d     *leveldb.DB
	files *countedStorage
	dir   string
}

func (g *goleveldbDB) Write(ops []Op, sync bool) error {
	var batch leveldb.Batch
	for _, op := range ops {
		if op.Delete {
			batch.Delete(op.Key)
		} else {
			batch.Put(op.Key, op.Value)
		}
	}
	return g.d.Write(&batch, &opt.WriteOptions{Sync: sync})
}

func (g *goleveldbDB) Snapshot() (Snapshot, error) {
	s, err := g.d.GetSnapshot()
	if err != nil {
		return nil, err
	}
	return goleveldbSnapshot{goleveldbView(s), s}, nil
}

// Flush flushes: a transaction begins with that.
func (g *goleveldbDB) Flush() error {
	tx, err := g.d.OpenTransaction()
	if err == nil {
		tx.Discard()
	}
	return err
}

// Compact compacts [start, limit]; goleveldb's own limit is exclusive.
func (g *goleveldbDB) Compact(start, limit []byte) error {
	r := util.Range{Start: start}
	if limit != nil {
		r.Limit = append(append([]byte{}, limit...), 0)
	}
	return g.d.CompactRange(r)
}

func (g *goleveldbDB) Tables() ([]int, error) {
	const levels = 12 // goleveldb knows no largest level
	counts := make([]int, levels)
	for level := range counts {
		text, err := g.d.GetProperty(fmt.Sprintf("leveldb.num-files-at-level%d", level))
		if err != nil {
			return nil, err
		}
		if counts[level], err = strconv.Atoi(text); err != nil {
			return nil, err
		}
	}
	return counts, nil
}

func (g *goleveldbDB) TableReads() (uint64, error) { return g.files.tableReads.Swap(0), nil }

func (g *goleveldbDB) Close() error { return errors.Join(g.d.Close(), g.files.Close()) }

func (g *goleveldbDB) Kill(into string) error {
	return errors.Join(copyLiveDir(into, g.dir), g.Close())
}

type goleveldbReader interface {
	Get(key []byte, ro *opt.ReadOptions) ([]byte, error)
	NewIterator(slice *util.Range, ro *opt.ReadOptions) iterator.Iterator
}

// goleveldbView reads the database or a snapshot.
func goleveldbView(r goleveldbReader) view {
	get := func(key []byte) ([]byte, error) { return r.Get(key, nil) }
	return view{get, leveldb.ErrNotFound, func() (cursor, func() error, error) {
		it := r.NewIterator(nil, nil)
		return it, func() error {
			defer it.Release()
			return it.Error()
		}, nil
	}}
}

type goleveldbSnapshot struct {
	view
	s *leveldb.Snapshot
}

func (s goleveldbSnapshot) Release() error {
	s.s.Release()
	return nil
}

// countedStorage counts the reads of table files.
type countedStorage struct {
	storage.Storage
	tableReads atomic.Uint64
}

func (c *countedStorage) Open(fd storage.FileDesc) (storage.Reader, error) {
	r, err := c.Storage.Open(fd)
	if err != nil || fd.Type != storage.TypeTable {
		return r, err
	}
	return &countedReader{r, &c.tableReads}, nil
}

type countedReader struct {
	storage.Reader
	reads *atomic.Uint64
}

func (c *countedReader) ReadAt(p []byte, offset int64) (int, error) {
	c.reads.Add(1)
	return c.Reader.ReadAt(p, offset)
}
