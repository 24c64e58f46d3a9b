package engine

import (
	"errors"
	"fmt"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/report"
)

func sieveDriver() Driver {
	return Driver{Name: "sievedb", Title: "SieveDB", Version: "this tree", Open: openSieve, MayOpenLazily: true,
		Remark: "GetTo into a buffer of the caller. All tables are opened before the measurement, as RocksDB's Open does."}
}

// bufferedDriver is SieveDB with the same promise for unsynced writes as Pebble.
func bufferedDriver() Driver {
	return Driver{Name: "sievedb-buffered", Title: "SieveDB, buffered", Version: "this tree", LosesUnsynced: true, MayOpenLazily: true,
		Remark: "SieveDB with WriteOptions.Buffered: unsynced writes may be lost when the process is killed, like Pebble's.",
		Open: func(dir string, o Options) (Engine, error) {
			e, err := openSieve(dir, o)
			if err == nil && !o.Sync {
				e.(*sieve).write = db.Buffered
			}
			return e, err
		}}
}

// sieveSeparatedDriver is SieveDB with large values apart from their keys.
func sieveSeparatedDriver() Driver {
	d := sieveDriver()
	d.Name, d.Title, d.Asked = "sievedb-separated", "SieveDB, values separated", true
	d.Remark = fmt.Sprintf("SieveDB with TableOptions.SeparateValues of %d.", SeparateFrom)
	d.Open = func(dir string, o Options) (Engine, error) { return openSieveWith(dir, o, SeparateFrom) }
	return d
}

type sieve struct {
	store *db.DB
	write *db.WriteOptions
	batch db.Batch
}

func openSieve(dir string, o Options) (Engine, error) { return openSieveWith(dir, o, 0) }

func openSieveWith(dir string, o Options, separateFrom int) (Engine, error) {
	opened := make(chan struct{})
	options := &db.Options{
		Filters:       db.FilterOptions{Policy: filter.NewDualBloomPolicy(FilterBits)},
		Cache:         db.CacheOptions{Size: max(o.CacheBytes, 1), OpenAhead: !o.OpenLazily, MaxOpenFiles: o.OpenFiles},
		Memtables:     db.MemtableOptions{Size: WriteBufferSize},
		Compaction:    db.CompactionOptions{MaxConcurrent: BackgroundJobs},
		EventListener: &db.EventListener{TablesOpenedAhead: func(report.OpenAheadInfo) { close(opened) }},
		Tables:        db.TableOptions{Compression: db.SnappyCompression, SeparateValues: separateFrom},
	}
	store, err := db.Open(dir, options)
	if err != nil {
		return nil, err
	}
	if options.Cache.OpenAhead {
		<-opened // RocksDB's Open waits for it too
	}
	return &sieve{store: store, write: &db.WriteOptions{NoSync: !o.Sync}}, nil
}

func (s *sieve) Get(dst, key []byte) ([]byte, bool, error) {
	value, err := s.store.GetTo(dst, key)
	if errors.Is(err, db.ErrNotFound) {
		return dst, false, nil
	}
	return value, err == nil, err
}

func (s *sieve) Put(key, value []byte) error { return s.store.Put(key, value, s.write) }
func (s *sieve) Delete(key []byte) error     { return s.store.Delete(key, s.write) }

func (s *sieve) Apply(n int, entry func(i int) (key, value []byte)) error {
	s.batch.Reset()
	for i := range n {
		key, value := entry(i)
		s.batch.Put(key, value)
	}
	return s.store.Apply(&s.batch, s.write)
}

func (s *sieve) NewIterator(how IterOptions) (Iterator, error) {
	it, err := s.store.NewIterator(&db.IterOptions{KeysOnly: how.KeysOnly})
	if err != nil {
		return nil, err
	}
	return sieveIterator{it}, nil
}

func (s *sieve) Flush() error { return s.store.Flush() }
func (s *sieve) Close() error { return s.store.Close() }

// Working is about compactions that run: the store starts one as soon as it is due.
func (s *sieve) Working() (bool, error) { return len(s.store.Metrics().Compactions.Running) > 0, nil }

type sieveIterator struct{ *db.Iterator }

func (it sieveIterator) Seek(key []byte) bool { return it.SeekGE(key) }

func (it sieveIterator) Close() error { return errors.Join(it.Err(), it.Iterator.Close()) }
