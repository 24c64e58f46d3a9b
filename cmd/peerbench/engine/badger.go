package engine

import (
	"errors"
	"math"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
)

func badgerDriver() Driver {
	return Driver{Name: "badger", Title: "Badger", Version: moduleVersion("github.com/dgraph-io/badger/v4"), Open: openBadger,
		Remark: "A transaction for each call, without conflict detection; values of this size are in its tables, not in its value log. " +
			"Tables and logs are mapped, so its reads are page faults. Two compactors are its minimum."}
}

func badgerSeparatedDriver() Driver {
	d := badgerDriver()
	d.Name, d.Title, d.Asked = "badger-separated", "Badger, values in its log", true
	d.Remark = "A transaction for each call, without conflict detection. Values of 1 KiB or more are in its value log, whose files are " +
		"collected when it is flushed, while one has half of garbage. Tables and logs are mapped, so its reads are page faults. " +
		"Two compactors are its minimum."
	d.Open = func(dir string, o Options) (Engine, error) { return openBadgerWith(dir, o, SeparateFrom) }
	return d
}

type badgerEngine struct {
	options   badger.Options
	db        *badger.DB
	separated bool
}

func openBadger(dir string, o Options) (Engine, error) { return openBadgerWith(dir, o, 0) }

// openBadgerWith keeps values from a size on in the value log; 0: the engine's default, 1 MiB.
func openBadgerWith(dir string, o Options, separateFrom int64) (Engine, error) {
	b := &badgerEngine{separated: separateFrom > 0, options: badger.DefaultOptions(dir).
		WithLogger(silent{}).
		WithMemTableSize(WriteBufferSize).
		WithBlockCacheSize(o.CacheBytes).
		WithNumCompactors(BackgroundJobs).
		WithCompression(options.Snappy).
		WithBloomFalsePositive(falsePositiveRate()).
		WithChecksumVerificationMode(options.OnBlockRead).
		WithDetectConflicts(false).
		WithMetricsEnabled(false).
		WithSyncWrites(o.Sync)}
	if b.separated {
		b.options = b.options.WithValueThreshold(separateFrom)
	}
	return b, b.open()
}

// falsePositiveRate returns the rate of a bloom filter with FilterBits and the best number of probes.
func falsePositiveRate() float64 { return math.Exp(-FilterBits * math.Ln2 * math.Ln2) }

func (b *badgerEngine) open() (err error) {
	b.db, err = badger.Open(b.options)
	return err
}

func (b *badgerEngine) Get(dst, key []byte) (value []byte, found bool, err error) {
	value = dst
	err = b.db.View(func(txn *badger.Txn) error {
		item, err := txn.Get(key)
		if err != nil {
			return err
		}
		return item.Value(func(v []byte) error {
			value, found = append(dst, v...), true
			return nil
		})
	})
	if errors.Is(err, badger.ErrKeyNotFound) {
		err = nil
	}
	return value, found, err
}

// Put passes copies, since a transaction retains its arguments until it has been written.
func (b *badgerEngine) Put(key, value []byte) error {
	return b.db.Update(func(txn *badger.Txn) error { return txn.Set(clone(key), clone(value)) })
}

func (b *badgerEngine) Delete(key []byte) error {
	return b.db.Update(func(txn *badger.Txn) error { return txn.Delete(clone(key)) })
}

func clone(b []byte) []byte { return append([]byte(nil), b...) }

func (b *badgerEngine) Apply(n int, entry func(i int) (key, value []byte)) error {
	batch := b.db.NewWriteBatch()
	defer batch.Cancel()
	for i := range n {
		key, value := entry(i)
		if err := batch.Set(clone(key), clone(value)); err != nil {
			return err
		}
	}
	return batch.Flush()
}

func (b *badgerEngine) NewIterator(how IterOptions) (Iterator, error) {
	txn := b.db.NewTransaction(false)
	o := badger.DefaultIteratorOptions
	o.Reverse = how.Reverse
	// Prefetching is useless for values that are stored with their keys.
	o.PrefetchValues = b.separated && !how.KeysOnly
	return &badgerIterator{txn: txn, it: txn.NewIterator(o)}, nil
}

// Flush reopens the store: closing it writes the memtables, and there is no other call for that.
func (b *badgerEngine) Flush() error {
	if err := b.db.Close(); err != nil {
		return err
	}
	if err := b.open(); err != nil || !b.separated {
		return err
	}
	for {
		if err := b.db.RunValueLogGC(0.5); errors.Is(err, badger.ErrNoRewrite) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

func (b *badgerEngine) Close() error { return b.db.Close() }

type badgerIterator struct {
	txn   *badger.Txn
	it    *badger.Iterator
	value []byte
	err   error
}

func (b *badgerIterator) First() bool { return b.rewind() }
func (b *badgerIterator) Last() bool  { return b.rewind() }

func (b *badgerIterator) rewind() bool {
	b.it.Rewind()
	return b.it.Valid()
}

func (b *badgerIterator) Seek(key []byte) bool {
	b.it.Seek(key)
	return b.it.Valid()
}

func (b *badgerIterator) Next() bool {
	b.it.Next()
	return b.it.Valid()
}

// Prev is Next of a reverse iterator.
func (b *badgerIterator) Prev() bool { return b.Next() }

func (b *badgerIterator) Key() []byte { return b.it.Item().Key() }

func (b *badgerIterator) Value() []byte {
	err := b.it.Item().Value(func(v []byte) error {
		b.value = v
		return nil
	})
	b.err = errors.Join(b.err, err)
	return b.value
}

func (b *badgerIterator) Close() error {
	b.it.Close()
	b.txn.Discard()
	return b.err
}
