package leveldb

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"

	"github.com/sievedb/sievedb/db"

	"github.com/syndtr/goleveldb/leveldb/iterator"
	"github.com/syndtr/goleveldb/leveldb/opt"
	"github.com/syndtr/goleveldb/leveldb/storage"
	"github.com/syndtr/goleveldb/leveldb/util"
)

// DB is a database. It is safe for concurrent use.
type DB struct {
	store *db.DB
	stor  storage.Storage
	owned bool // whether Close closes stor
	o     *opt.Options
	// gate is held by writers, shared, and by a transaction, exclusively.
	gate        sync.RWMutex
	transaction atomic.Pointer[Transaction]
	opening     sync.Mutex // held while a transaction is being opened, and while Close looks for it
	readOnly    atomic.Bool
	closed      atomic.Bool

	aliveIters, aliveSnaps atomic.Int32
	snapshots              atomic.Uint64
	work                   work
}

// Open opens the database in a storage, or creates it. o may be nil.
//
// The error is os.ErrExist or os.ErrNotExist if an option forbids what is there, storage.ErrLocked if the storage is in
// use, and an *errors.ErrCorrupted if files are damaged; Recover then restores what can be read.
func Open(stor storage.Storage, o *opt.Options) (db *DB, err error) { return open(stor, o, false) }

// OpenFile opens the database in a directory, or creates both. Close releases the directory. The errors
// are those of Open and of storage.OpenFile.
func OpenFile(path string, o *opt.Options) (db *DB, err error) {
	return openFile(path, o, o.GetReadOnly(), open)
}

// Recover opens the database in a storage from its tables and logs, whatever happened to CURRENT and the
// MANIFEST. Files that are damaged or not needed any more move to the directory lost or, in a program's
// own storage, become temporary files. ErrorIfMissing and ErrorIfExist have no effect.
func Recover(stor storage.Storage, o *opt.Options) (db *DB, err error) { return repair(stor, o, false) }

// RecoverFile is Recover for a directory.
func RecoverFile(path string, o *opt.Options) (db *DB, err error) {
	return openFile(path, o, false, repair)
}

func openFile(path string, o *opt.Options, readOnly bool, open func(storage.Storage, *opt.Options, bool) (*DB, error)) (*DB, error) {
	stor, err := storage.OpenFile(path, readOnly)
	if err != nil {
		return nil, err
	}
	d, err := open(stor, o, true)
	if err != nil {
		_ = stor.Close() // err is what the caller compares
		return nil, err
	}
	return d, nil
}

func open(stor storage.Storage, o *opt.Options, owned bool) (*DB, error) {
	if stor == nil {
		return nil, os.ErrInvalid
	}
	d := &DB{stor: stor, owned: owned, o: copyOptions(o)}
	n, dir, err := d.native(!o.GetReadOnly())
	if err != nil {
		return nil, err
	}
	n.ErrorIfMissing, n.ErrorIfExists = o.GetErrorIfMissing(), o.GetErrorIfExist()
	refuse := n.ErrorIfExists && (n.ErrorIfMissing || n.ReadOnly) // which SieveDB does not combine
	if refuse {
		n.ErrorIfExists = false
	}
	if d.store, err = db.Open(dir, n); levelsOverlap(err) && !n.ReadOnly && n.Comparer != db.BytewiseComparer {
		d.stor.Log("repairing: goleveldb has put tables that overlap on one level, as it does with comparers of programs")
		if err = db.Repair(dir, n); err == nil {
			d.store, err = db.Open(dir, n)
		}
	}
	if err != nil {
		return nil, convertOpen(err)
	}
	if refuse {
		_ = d.store.Close()
		return nil, os.ErrExist
	}
	d.readOnly.Store(n.ReadOnly)
	return d, nil
}

func repair(stor storage.Storage, o *opt.Options, owned bool) (*DB, error) {
	if stor == nil {
		return nil, os.ErrInvalid
	}
	// Before a repair locks the storage it reads files, which a storage in use may refuse with another error.
	lock, err := stor.Lock()
	if err != nil {
		return nil, err
	}
	lock.Unlock()
	if o = copyOptions(o); o != nil {
		o.ErrorIfMissing, o.ErrorIfExist = false, false
	}
	n, dir, err := (&DB{stor: stor, o: o}).native(true)
	if err != nil {
		return nil, err
	}
	n.ReadOnly = false
	if err := db.Repair(dir, n); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, convertOpen(err)
	}
	return open(stor, o, owned)
}

func copyOptions(o *opt.Options) *opt.Options {
	if o == nil {
		return nil
	}
	c := *o
	return &c
}

// native returns SieveDB's options, and the directory of the database. It fails if toWrite is set and the
// storage is read-only.
func (d *DB) native(toWrite bool) (n *db.Options, dir string, err error) {
	n = nativeOptions(d.o)
	n.Logger = slog.New(&storageLog{stor: d.stor})
	n.EventListener = d.work.listener()
	if s, ok := d.stor.(directStorage); ok {
		if n.FS, dir, err = s.SieveFS(toWrite); err != nil {
			return nil, "", err
		}
		// A crash of goleveldb may have left CURRENT under another name, which this mends. What is
		// wrong otherwise, SieveDB reports.
		_, _ = d.stor.GetMeta()
		return n, dir, nil
	}
	fs, err := newStorageFS(d.stor)
	if err != nil {
		return nil, "", err
	}
	n.FS = fs
	return n, storageDir, nil
}

// ok returns ErrClosed if the DB is closed.
func (d *DB) ok() error {
	if d.closed.Load() {
		return ErrClosed
	}
	return nil
}

// writable returns why the DB cannot be written to.
func (d *DB) writable() error {
	if d.closed.Load() {
		return ErrClosed
	}
	if d.readOnly.Load() {
		return ErrReadOnly
	}
	return nil
}

// Close closes the DB, and discards an open transaction. Iterators and snapshots that are not released
// return ErrClosed from now on. A second Close returns ErrClosed.
func (db *DB) Close() error {
	if db.closed.Swap(true) {
		return ErrClosed
	}
	db.opening.Lock() // a transaction that is being opened is there, or will find the database closed
	t := db.transaction.Load()
	db.opening.Unlock()
	if t != nil {
		t.Discard()
	}
	err := convertClose(db.store.Close())
	if db.owned {
		if closeErr := db.stor.Close(); err == nil {
			err = closeErr
		}
	}
	return err
}

var noSync = db.NoSync

// durability returns SieveDB's form of write options.
func (d *DB) durability(wo *opt.WriteOptions) *db.WriteOptions {
	if wo.GetSync() && !d.o.GetNoSync() {
		return db.Sync
	}
	return noSync
}

// Put writes value under key. It keeps neither slice.
func (db *DB) Put(key, value []byte, wo *opt.WriteOptions) error {
	if err := db.ok(); err != nil {
		return err
	}
	db.gate.RLock()
	defer db.gate.RUnlock()
	if err := db.writable(); err != nil {
		return err
	}
	return convert(db.store.Put(key, value, db.durability(wo)))
}

// Delete deletes key. It is no error if key has no value.
func (db *DB) Delete(key []byte, wo *opt.WriteOptions) error {
	if err := db.ok(); err != nil {
		return err
	}
	db.gate.RLock()
	defer db.gate.RUnlock()
	if err := db.writable(); err != nil {
		return err
	}
	return convert(db.store.Delete(key, db.durability(wo)))
}

// Write applies a batch, all of it or nothing. The batch does not change. One that is larger than
// Options.WriteBuffer is on stable storage when Write returns, unless an option prevents that.
func (db *DB) Write(batch *Batch, wo *opt.WriteOptions) error {
	if err := db.ok(); err != nil || batch == nil || batch.Len() == 0 {
		return err
	}
	db.gate.RLock()
	defer db.gate.RUnlock()
	if err := db.writable(); err != nil {
		return err
	}
	return convert(batch.apply(db, wo))
}

// getter is what Get of SieveDB has in common.
type getter interface {
	Get(key []byte) ([]byte, error)
	GetWith(dst, key []byte, o *db.GetOptions) ([]byte, error)
}

var withoutCache = &db.GetOptions{NoFillCache: true}

func get(from getter, key []byte, ro *opt.ReadOptions) (value []byte, err error) {
	if ro.GetDontFillCache() {
		value, err = from.GetWith([]byte{}, key, withoutCache)
	} else {
		value, err = from.Get(key)
	}
	if err != nil {
		return nil, convert(err)
	}
	return value, nil
}

// Get returns the value of key, which belongs to the caller, or ErrNotFound.
func (db *DB) Get(key []byte, ro *opt.ReadOptions) (value []byte, err error) {
	return get(db.store, key, ro)
}

// Has reports whether key has a value.
func (db *DB) Has(key []byte, ro *opt.ReadOptions) (ret bool, err error) {
	ret, err = db.store.Has(key)
	return ret, convert(err)
}

// NewIterator returns an iterator over the keys in slice; nil means all. It shows the database as it is now. It must be
// released, and is used by one goroutine at a time. Of a closed DB it has no keys, and the error ErrClosed.
func (db *DB) NewIterator(slice *util.Range, ro *opt.ReadOptions) iterator.Iterator {
	return db.newIterator(db.store, slice, ro)
}

// GetSnapshot returns the database as it is now. It should be released.
func (db *DB) GetSnapshot() (*Snapshot, error) {
	if err := db.ok(); err != nil {
		return nil, err
	}
	return db.newSnapshot(), nil
}

// CompactRange compacts the tables with keys in r; nil means no bound. A range whose start is after its limit is empty.
func (db *DB) CompactRange(r util.Range) error {
	if err := db.writable(); err != nil {
		return err
	}
	if r.Start != nil && r.Limit != nil && db.o.GetComparer().Compare(r.Start, r.Limit) >= 0 {
		return nil
	}
	return convert(db.store.Compact(context.Background(), r.Start, r.Limit))
}

// SetReadOnly refuses writes with ErrReadOnly until the database is opened again. It waits for an open
// transaction. When it returns, all writes are on stable storage, and files of the database are not written any
// more, also not by Close. Only messages go to the storage.
func (db *DB) SetReadOnly() error {
	if err := db.ok(); err != nil {
		return err
	}
	db.gate.Lock()
	defer db.gate.Unlock()
	if err := db.writable(); err != nil {
		return err
	}
	db.readOnly.Store(true)
	return convert(db.store.SetReadOnly())
}

// Reader is what a DB, a Snapshot and a Transaction can do.
type Reader interface {
	Get(key []byte, ro *opt.ReadOptions) (value []byte, err error)
	NewIterator(slice *util.Range, ro *opt.ReadOptions) iterator.Iterator
}

// Sizes are numbers of bytes.
type Sizes []int64

// Sum returns their sum.
func (sizes Sizes) Sum() int64 {
	var sum int64
	for _, size := range sizes {
		sum += size
	}
	return sum
}

// SizeOf returns about how many bytes the tables use for each range. A nil Start is the first key; a nil
// Limit is the empty key, so there is nothing before it.
func (db *DB) SizeOf(ranges []util.Range) (Sizes, error) {
	if err := db.ok(); err != nil {
		return nil, err
	}
	sizes := make(Sizes, 0, len(ranges))
	for _, r := range ranges {
		limit := r.Limit
		if limit == nil {
			limit = []byte{}
		}
		n, err := db.store.ApproximateSize(r.Start, limit)
		if err != nil {
			return nil, convert(err)
		}
		sizes = append(sizes, int64(n))
	}
	return sizes, nil
}
