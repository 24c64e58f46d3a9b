package leveldb

import (
	"sync"

	"github.com/sievedb/sievedb/db"

	"github.com/syndtr/goleveldb/leveldb/iterator"
	"github.com/syndtr/goleveldb/leveldb/opt"
	"github.com/syndtr/goleveldb/leveldb/util"
)

// Transaction collects writes that Commit applies together, and reads the database with these writes.
// Other writers wait until Commit or Discard. It is safe for concurrent use. What it writes beyond
// Options.WriteBuffer goes to tables, which nobody else reads before Commit.
type Transaction struct {
	d *DB

	mu   sync.Mutex // guards the fields below, and t against concurrent use
	t    *db.BulkTransaction
	done bool
}

// OpenTransaction begins a transaction. It waits for the end of another one.
func (db *DB) OpenTransaction() (*Transaction, error) {
	if err := db.ok(); err != nil {
		return nil, err
	}
	db.gate.Lock()
	if err := db.writable(); err != nil {
		db.gate.Unlock()
		return nil, err
	}
	t, err := db.beginTransaction()
	if err != nil {
		db.gate.Unlock()
		return nil, convert(err)
	}
	return t, nil
}

// beginTransaction begins a transaction that Close finds. db.gate is held.
func (db *DB) beginTransaction() (*Transaction, error) {
	db.opening.Lock()
	defer db.opening.Unlock()
	if db.closed.Load() {
		return nil, ErrClosed
	}
	bulk, err := db.store.NewBulkTransaction()
	if err != nil {
		return nil, err
	}
	t := &Transaction{d: db, t: bulk}
	if db.o.GetNoSync() {
		t.t.SetWriteOptions(noSync)
	}
	db.transaction.Store(t)
	return t, nil
}

// lock locks the transaction, unless it has ended.
func (tr *Transaction) lock() error {
	tr.mu.Lock()
	if tr.done {
		tr.mu.Unlock()
		return errTransactionDone
	}
	return nil
}

// Get returns the value of key, which belongs to the caller, or ErrNotFound.
func (tr *Transaction) Get(key []byte, ro *opt.ReadOptions) ([]byte, error) {
	if err := tr.lock(); err != nil {
		return nil, err
	}
	defer tr.mu.Unlock()
	return get(tr.t, key, ro)
}

// Has reports whether key has a value.
func (tr *Transaction) Has(key []byte, ro *opt.ReadOptions) (bool, error) {
	if err := tr.lock(); err != nil {
		return false, err
	}
	defer tr.mu.Unlock()
	has, err := tr.t.Has(key)
	return has, convert(err)
}

// NewIterator returns an iterator over the keys in slice; nil means all. It does not show later writes.
// It can be used after the end of the transaction, and must be released.
func (tr *Transaction) NewIterator(slice *util.Range, ro *opt.ReadOptions) iterator.Iterator {
	if err := tr.lock(); err != nil {
		return iterator.NewEmptyIterator(err)
	}
	defer tr.mu.Unlock()
	return tr.d.newIterator(tr.t, slice, ro)
}

// Put writes value under key. It copies both. wo has no effect.
func (tr *Transaction) Put(key, value []byte, wo *opt.WriteOptions) error {
	if err := tr.lock(); err != nil {
		return err
	}
	defer tr.mu.Unlock()
	return convert(tr.t.Put(key, value))
}

// Delete deletes key. wo has no effect.
func (tr *Transaction) Delete(key []byte, wo *opt.WriteOptions) error {
	if err := tr.lock(); err != nil {
		return err
	}
	defer tr.mu.Unlock()
	return convert(tr.t.Delete(key))
}

// Write adds the writes of a batch, which does not change. wo has no effect.
func (tr *Transaction) Write(b *Batch, wo *opt.WriteOptions) error {
	if b == nil || b.Len() == 0 {
		return nil
	}
	if err := tr.lock(); err != nil {
		return err
	}
	defer tr.mu.Unlock()
	w, err := b.complete()
	if err != nil {
		return err
	}
	for _, e := range w.b.All() {
		if e.Kind == db.EntryDelete {
			err = tr.t.Delete(e.Key)
		} else {
			err = tr.t.Put(e.Key, e.Value)
		}
		if err != nil {
			return convert(err)
		}
	}
	return nil
}

// Commit applies the writes. They are on stable storage when it returns, unless Options.NoSync is set.
// After an error nothing is applied. The transaction has ended in any case.
func (tr *Transaction) Commit() error {
	if err := tr.d.ok(); err != nil {
		return err
	}
	if err := tr.lock(); err != nil {
		return err
	}
	defer tr.mu.Unlock()
	err := tr.t.Commit()
	tr.endLocked()
	return convert(err)
}

// Discard ends the transaction without applying anything. It does nothing if the transaction has ended.
func (tr *Transaction) Discard() {
	if tr.lock() != nil {
		return
	}
	defer tr.mu.Unlock()
	_ = tr.t.Close() // it only says that the store is closed
	tr.endLocked()
}

func (tr *Transaction) endLocked() {
	tr.done = true
	tr.d.transaction.Store(nil)
	tr.d.gate.Unlock()
}
