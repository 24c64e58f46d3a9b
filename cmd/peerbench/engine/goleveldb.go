package engine

import (
	"errors"

	"github.com/syndtr/goleveldb/leveldb"
	"github.com/syndtr/goleveldb/leveldb/filter"
	"github.com/syndtr/goleveldb/leveldb/iterator"
	"github.com/syndtr/goleveldb/leveldb/opt"
)

func goleveldbDriver() Driver {
	return Driver{Name: "goleveldb", Title: "goleveldb", Version: moduleVersion("github.com/syndtr/goleveldb"), Open: openGoleveldb,
		Remark: "One compaction at a time; Get returns a copy. No Zstandard: it uses Snappy instead."}
}

type goleveldb struct {
	dir     string
	options *opt.Options
	write   *opt.WriteOptions
	db      *leveldb.DB
	batch   leveldb.Batch
}

func openGoleveldb(dir string, o Options) (Engine, error) {
	g := &goleveldb{dir: dir, write: &opt.WriteOptions{Sync: o.Sync}, options: &opt.Options{
		BlockCacheCapacity:     int(o.CacheBytes),
		WriteBuffer:            WriteBufferSize,
		OpenFilesCacheCapacity: o.OpenFiles,
		Compression:            opt.SnappyCompression,
		Filter:                 filter.NewBloomFilter(FilterBits),
	}}
	return g, g.open()
}

func (g *goleveldb) open() (err error) {
	g.db, err = leveldb.OpenFile(g.dir, g.options)
	return err
}

func (g *goleveldb) Get(dst, key []byte) ([]byte, bool, error) {
	value, err := g.db.Get(key, nil)
	if errors.Is(err, leveldb.ErrNotFound) {
		return dst, false, nil
	}
	return value, err == nil, err
}

func (g *goleveldb) Put(key, value []byte) error { return g.db.Put(key, value, g.write) }
func (g *goleveldb) Delete(key []byte) error     { return g.db.Delete(key, g.write) }

func (g *goleveldb) Apply(n int, entry func(i int) (key, value []byte)) error {
	g.batch.Reset()
	for i := range n {
		g.batch.Put(entry(i))
	}
	return g.db.Write(&g.batch, g.write)
}

func (g *goleveldb) NewIterator(IterOptions) (Iterator, error) {
	return goleveldbIterator{g.db.NewIterator(nil, nil)}, nil
}

// Flush reopens the store, which writes the entries of its log to a table. There is no other call for that.
func (g *goleveldb) Flush() error {
	if err := g.db.Close(); err != nil {
		return err
	}
	return g.open()
}

func (g *goleveldb) Close() error { return g.db.Close() }

type goleveldbIterator struct{ iterator.Iterator }

func (it goleveldbIterator) Close() error {
	err := it.Error()
	it.Release()
	return err
}
