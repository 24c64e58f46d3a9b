package engine

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/sstable"
)

func pebbleDriver() Driver {
	return Driver{Name: "pebble", Title: "Pebble", Version: moduleVersion("github.com/cockroachdb/pebble/v2"), Open: openPebble, LosesUnsynced: true,
		Remark: "Get and its closer. Unsynced writes may be lost when the process is killed, unlike those of other engines. " +
			"Get does not query the filters of the last level."}
}

func pebbleSeparatedDriver() Driver {
	d := pebbleDriver()
	d.Name, d.Title, d.Asked = "pebble-separated", "Pebble, values separated", true
	d.Remark += " Values of 1 KiB or more are in blob files, which are rewritten once a fifth of one is garbage."
	d.Open = func(dir string, o Options) (Engine, error) {
		return openPebbleWith(dir, o, pebble.ValueSeparationPolicy{
			Enabled: true, MinimumSize: SeparateFrom, MaxBlobReferenceDepth: 10, TargetGarbageRatio: 0.2,
		})
	}
	return d
}

type pebbleEngine struct {
	db    *pebble.DB
	write *pebble.WriteOptions
	cache *pebble.Cache
}

func openPebble(dir string, o Options) (Engine, error) {
	return openPebbleWith(dir, o, pebble.ValueSeparationPolicy{})
}

func openPebbleWith(dir string, o Options, values pebble.ValueSeparationPolicy) (Engine, error) {
	cache := pebble.NewCache(o.CacheBytes)
	options := &pebble.Options{
		Cache:                      cache,
		MemTableSize:               WriteBufferSize,
		MaxOpenFiles:               o.OpenFiles,
		CompactionConcurrencyRange: func() (lower, upper int) { return 1, BackgroundJobs },
		FormatMajorVersion:         pebble.FormatNewest,
		Logger:                     silent{},
	}
	options.Experimental.ValueSeparationPolicy = func() pebble.ValueSeparationPolicy { return values }
	for i := range options.Levels {
		options.Levels[i].Compression = func() *sstable.CompressionProfile { return sstable.SnappyCompression }
		options.Levels[i].FilterPolicy = bloom.FilterPolicy(FilterBits)
	}
	d, err := pebble.Open(dir, options)
	if err != nil {
		cache.Unref()
		return nil, err
	}
	return &pebbleEngine{db: d, write: &pebble.WriteOptions{Sync: o.Sync}, cache: cache}, nil
}

func (p *pebbleEngine) Get(dst, key []byte) ([]byte, bool, error) {
	value, closer, err := p.db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return dst, false, nil
	}
	if err != nil {
		return dst, false, err
	}
	dst = append(dst, value...)
	return dst, true, closer.Close()
}

func (p *pebbleEngine) Put(key, value []byte) error { return p.db.Set(key, value, p.write) }
func (p *pebbleEngine) Delete(key []byte) error     { return p.db.Delete(key, p.write) }

func (p *pebbleEngine) Apply(n int, entry func(i int) (key, value []byte)) error {
	batch := p.db.NewBatch()
	for i := range n {
		key, value := entry(i)
		if err := batch.Set(key, value, nil); err != nil {
			return errors.Join(err, batch.Close())
		}
	}
	return errors.Join(batch.Commit(p.write), batch.Close())
}

func (p *pebbleEngine) NewIterator(IterOptions) (Iterator, error) {
	it, err := p.db.NewIter(nil)
	if err != nil {
		return nil, err
	}
	return pebbleIterator{it}, nil
}

func (p *pebbleEngine) Flush() error { return p.db.Flush() }

// Working is about work in progress. The estimated debt is not zero at rest.
func (p *pebbleEngine) Working() (bool, error) {
	m := p.db.Metrics()
	return m.Flush.NumInProgress+m.Compact.NumInProgress > 0, nil
}

func (p *pebbleEngine) Close() error {
	err := p.db.Close()
	p.cache.Unref()
	return err
}

type pebbleIterator struct{ *pebble.Iterator }

func (it pebbleIterator) Seek(key []byte) bool { return it.SeekGE(key) }

// silent discards the engines' log messages. Fatal errors still end the process.
type silent struct{}

func (silent) Infof(string, ...any)    {}
func (silent) Debugf(string, ...any)   {}
func (silent) Warningf(string, ...any) {}
func (silent) Errorf(string, ...any)   {}
func (silent) Fatalf(format string, args ...any) {
	panic(fmt.Sprintf(format, args...))
}
