package db

import (
	"time"

	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/batch"
	"github.com/sievedb/sievedb/internal/read/counters"
	"github.com/sievedb/sievedb/internal/write/bulk"
	"github.com/sievedb/sievedb/sstable"
)

// BulkTransaction collects writes in any order, as many as the disk has room for, and Commit makes all of them
// visible at once. It reads the database as it was when it began, with its own writes on top. Beyond
// Options.Memtables.Size it writes tables, which no reader sees before Commit: a crash leaves nothing of
// them, and the next Open removes their files.
//
// Other than a Transaction, it does not remember what it reads, and Commit never returns ErrConflict: its writes
// replace what others wrote meanwhile. So it is for a program that has no other writers meanwhile, or whose
// other writers write other keys.
//
// It is used by one goroutine at a time. Its iterators are independent of it, and can still be used when it
// has ended. For entries that arrive in the order of their keys and are not read, a Loader costs less.
type BulkTransaction struct {
	db       *DB
	snapshot *Snapshot // nil once it has ended
	writes   *bulk.Transaction
	options  *WriteOptions
}

// NewBulkTransaction begins a bulk transaction. The caller ends it with Commit or Close. The errors are those of
// NewLoader.
func (d *DB) NewBulkTransaction() (*BulkTransaction, error) {
	if err := d.loadable(); err != nil {
		return nil, err
	}
	writes, err := d.bulk.NewTransaction("bulk transaction", counters.CallSite(), d.inForce.full().Memtables.Size)
	if err != nil {
		return nil, err
	}
	return &BulkTransaction{db: d, writes: writes, snapshot: d.NewSnapshot()}, nil
}

func (t *BulkTransaction) ended() bool { return t == nil || t.snapshot == nil || t.db.closed.Load() }

// Put writes value under key. It copies both. A key above MaxKeySize or a value above MaxValueSize is
// ErrTooLarge, and is not written. After an error of the disk the transaction can only be ended.
func (t *BulkTransaction) Put(key, value []byte) error {
	if t.ended() {
		return ErrClosed
	}
	return t.writes.Put(key, value)
}

// PutTTL is Put for a value that readers see until ttl has passed, from this call on; see DB.PutTTL.
func (t *BulkTransaction) PutTTL(key, value []byte, ttl time.Duration) error {
	if t.ended() {
		return ErrClosed
	}
	return t.writes.PutTTL(key, value, ttl)
}

// Delete deletes key. Deleting a key that does not exist is no error. Otherwise it is like Put.
func (t *BulkTransaction) Delete(key []byte) error {
	if t.ended() {
		return ErrClosed
	}
	return t.writes.Delete(key)
}

// Get returns a copy of the value of key, which belongs to the caller, or ErrNotFound.
func (t *BulkTransaction) Get(key []byte) ([]byte, error) { return t.GetWith([]byte{}, key, nil) }

// GetWith appends the value of key to dst and returns the extended slice, or dst and ErrNotFound. The options may
// be nil.
func (t *BulkTransaction) GetWith(dst, key []byte, o *GetOptions) ([]byte, error) {
	if t.ended() {
		return dst, ErrClosed
	}
	var l sstable.Lookup
	l.NoFillCache = o != nil && o.NoFillCache
	value, found, err := t.find(&l, key)
	if err == nil && found {
		dst = append(dst, value...)
	}
	l.Release()
	if found || err != nil {
		return dst, err
	}
	return t.snapshot.GetWith(dst, key, o)
}

// Has reports whether key has a value.
func (t *BulkTransaction) Has(key []byte) (bool, error) {
	if t.ended() {
		return false, ErrClosed
	}
	l := sstable.Lookup{KeyOnly: t.db.scans.Expiry == nil}
	_, found, err := t.find(&l, key)
	l.Release()
	switch {
	case err == ErrNotFound:
		return false, nil
	case found || err != nil:
		return found && err == nil, err
	}
	return t.snapshot.Has(key)
}

// find looks key up among the writes of the transaction; see Finder.FindOwn.
func (t *BulkTransaction) find(l *sstable.Lookup, key []byte) (value []byte, found bool, err error) {
	v := t.writes.View(false)
	value, found, err = t.db.finder.FindOwn(l, key, v.Mem, v.Runs)
	if err != nil && t.ended() { // Close has removed the tables
		err = ErrClosed
	}
	return value, found, err
}

// NewIterator returns an iterator over what the transaction sees now; it does not show later writes. The caller
// closes it. While iterators are open, Commit and Close keep the files that they need.
func (t *BulkTransaction) NewIterator(o *IterOptions) (*Iterator, error) {
	if t.ended() {
		return nil, ErrClosed
	}
	v := t.writes.View(true)
	if t.db.finder.VisibleSeq.Load() >= v.First { // then others have numbers like those of the transaction
		return nil, errors.New("sievedb: more loads and ingests were committed during a bulk transaction than it can stay above; " +
			"begin it again")
	}
	it, err := t.db.newIteratorOf(o, &t.snapshot.at, func(it *Iterator) {
		it.cursor.AddBulk(v.Mem, v.First, v.Last, v.Runs, v.Tables)
	})
	if err == nil && t.ended() { // Close may have removed the tables before it had its reference
		_ = it.Close()
		return nil, ErrClosed
	}
	return it, err
}

// SetWriteOptions says how durable Commit makes a transaction that has written no tables. Nil, the default, means
// Sync. One with tables is always durable.
func (t *BulkTransaction) SetWriteOptions(wo *WriteOptions) {
	if t != nil {
		t.options = wo
	}
}

// Commit makes the writes visible, all at the same moment, and ends the transaction. A small one is written to the
// log like a batch. One with tables does what Loader.Commit says. After an error nothing is visible; as with a failed
// write, all of it may be present when the database is opened again.
func (t *BulkTransaction) Commit() error {
	if t.ended() {
		return ErrClosed
	}
	defer func() { _ = t.Close() }()
	if t.db.listenerCalls.InThisGoroutine() {
		return ErrInListener
	}
	if t.writes.Spilled() {
		return t.db.loaded(t.writes.Commit())
	}
	var b batch.Batch
	t.writes.Batch(&b)
	if b.Len() == 0 {
		return nil
	}
	return t.db.apply(&b, t.options, nil)
}

// Close ends the transaction without writing anything. A second Close, and one after Commit, does nothing and
// returns ErrClosed.
func (t *BulkTransaction) Close() error {
	if t == nil || t.snapshot == nil {
		return ErrClosed
	}
	_ = t.writes.Close() // it only says that the store is closed, or that a listener calls
	_ = t.snapshot.Close()
	t.snapshot = nil
	return nil
}
