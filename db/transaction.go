package db

import (
	"slices"
	"time"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/batch"
	"github.com/sievedb/sievedb/internal/read/counters"
	"github.com/sievedb/sievedb/internal/write/bulk"
	"github.com/sievedb/sievedb/internal/write/txn"
)

// Transaction reads the database as it was when the transaction began, with its own writes on top, and writes all of
// them at once in Commit. It is optimistic: it takes no locks, and other writers do not wait for it. Commit writes
// nothing and returns ErrConflict if another commit has changed something that the transaction read: a key, whether it
// was there or not, or any key in the part of a range over which one of its iterators went. So transactions that write
// are serializable, in the order of their commits. One that only reads, and one that only writes, never conflict.
//
// Writes outside of transactions count as commits.
//
// A Transaction, with its iterators, is used by one goroutine at a time. It must be ended by Commit or Close: until
// then the entries that it may read stay on disk. After that its methods return ErrClosed, a second Commit with the
// reason, but its iterators can still be used. It holds its writes in memory, twice if it reads after it has written,
// and a copy of each key that it reads. Its limits are those of a Batch.
type Transaction struct {
	db       *DB
	snapshot *Snapshot // nil once it has ended
	readOnly bool
	options  *WriteOptions
	batch    batch.Batch
	reads    txn.Reads
	writes   txn.Writes
	walking  []*Iterator // its open iterators, unless it is read-only
	deletes  bool        // DeleteRange was called: Commit fails if writes have ended, even if it found nothing
	// within is "Update" or "View" while it belongs to that call, which ends it.
	within string
	misuse error  // by the function of that call: what Update returns instead of committing
	end    string // how it ended; empty: it has not, or never began
}

// TransactionOptions are those of NewTransaction. The zero value is the default.
type TransactionOptions struct {
	// ReadOnly refuses writes with ErrReadOnly. Such a transaction remembers nothing of what it reads.
	ReadOnly bool
}

// NewTransaction begins a transaction; nil options mean the defaults. The caller ends it with
// Commit or Close. On a closed, nil or zero DB every method of the transaction returns
// ErrClosed. Update and View are simpler where the transaction is one function.
func (d *DB) NewTransaction(o *TransactionOptions) *Transaction {
	if d == nil || d.closed.Load() {
		return &Transaction{}
	}
	t := &Transaction{
		db: d, snapshot: &Snapshot{db: d, at: d.snapshots.Open(&d.finder.Current, d.scans.Expiry)}, readOnly: o != nil && o.ReadOnly || d.opts.ReadOnly,
		reads: txn.Reads{Comparer: d.opts.Comparer}, writes: txn.Writes{Comparer: d.opts.Comparer},
	}
	if !t.readOnly {
		t.snapshot.at.Ends = &t.reads.Ends
	}
	d.opened.Add(t, counters.Transaction, d.opts.TrackOpen)
	return t
}

// ended reports whether the transaction cannot be used any more.
func (t *Transaction) ended() bool { return t == nil || t.snapshot == nil }

// read records that key was read.
func (t *Transaction) read(key []byte) {
	if !t.readOnly {
		t.reads.AddKey(key)
	}
}

// own returns the transaction's own newest write of key, if there is one.
func (t *Transaction) own(key []byte) (value []byte, kind base.Kind, ok bool) {
	if t.batch.Count() == 0 {
		return nil, 0, false
	}
	t.updateIndex()
	return t.writes.Get(key)
}

// updateIndex adds the newest writes to the index.
func (t *Transaction) updateIndex() { t.writes.Update(t.batch.Entries(), t.batch.Count()) }

// Get returns a copy of the value of key, which belongs to the caller, or ErrNotFound.
func (t *Transaction) Get(key []byte) ([]byte, error) {
	if t.ended() {
		return nil, ErrClosed
	}
	if value, kind, ok := t.own(key); ok {
		return ownWrite([]byte{}, value, kind)
	}
	t.read(key)
	return t.snapshot.Get(key)
}

// ownWrite appends the value of an own write to dst.
func ownWrite(dst, value []byte, kind base.Kind) ([]byte, error) {
	if kind == base.KindDelete {
		return nil, ErrNotFound
	}
	return append(dst, value...), nil
}

// GetTo appends the value of key to dst and returns the extended slice, or dst and ErrNotFound.
func (t *Transaction) GetTo(dst, key []byte) ([]byte, error) { return t.GetWith(dst, key, nil) }

// GetWith is GetTo with options, which may be nil.
func (t *Transaction) GetWith(dst, key []byte, o *GetOptions) ([]byte, error) {
	if t.ended() {
		return dst, ErrClosed
	}
	if value, kind, ok := t.own(key); ok {
		if kind == base.KindDelete {
			return dst, ErrNotFound
		}
		return append(dst, value...), nil
	}
	t.read(key)
	return t.snapshot.GetWith(dst, key, o)
}

// Has reports whether key has a value.
func (t *Transaction) Has(key []byte) (bool, error) {
	if t.ended() {
		return false, ErrClosed
	}
	if _, kind, ok := t.own(key); ok {
		return kind == base.KindSet, nil
	}
	t.read(key)
	return t.snapshot.Has(key)
}

// MultiGet returns the values of keys as DB.MultiGet does.
func (t *Transaction) MultiGet(keys [][]byte) (values [][]byte, err error) {
	if t.ended() {
		return nil, ErrClosed
	}
	values = make([][]byte, len(keys))
	var others [][]byte // keys that it has not written
	var places []int
	for i, key := range keys {
		value, kind, ok := t.own(key)
		if !ok {
			t.read(key)
			others, places = append(others, key), append(places, i)
		} else if kind != base.KindDelete {
			values[i] = append([]byte{}, value...)
		}
	}
	found, err := t.snapshot.MultiGet(others)
	for i, value := range found {
		values[places[i]] = value
	}
	return values, err
}

// NewIterator returns an iterator over what the transaction sees now; it does not show later
// writes of the transaction. The caller closes it.
func (t *Transaction) NewIterator(o *IterOptions) (*Iterator, error) {
	if t.ended() {
		return nil, ErrClosed
	}
	t.updateIndex()
	it, err := t.snapshot.newIterator(o, &t.writes)
	if err == nil {
		t.follow(it)
	}
	return it, err
}

// follow records what a new iterator reads. Nil t does nothing.
func (t *Transaction) follow(it *Iterator) {
	if t != nil && !t.readOnly {
		it.txn = t
		it.cursor.Record(&t.reads)
		t.walking = append(t.walking, it)
	}
}

// forget stops the recording of an iterator. Nil t does nothing.
func (t *Transaction) forget(it *Iterator) {
	if t == nil {
		return
	}
	t.walking = slices.DeleteFunc(t.walking, func(other *Iterator) bool { return other == it })
	it.txn = nil
	it.cursor.Forget()
}

// Put writes value under key. It copies both. A key above MaxKeySize, a value above
// MaxValueSize and a transaction above MaxBatchSize are ErrTooLarge. After that error Commit
// returns it as well, since a part of the transaction would be missing.
func (t *Transaction) Put(key, value []byte) error { return t.write(base.KindSet, key, value) }

// Delete deletes key. Deleting a key that does not exist is no error.
func (t *Transaction) Delete(key []byte) error { return t.write(base.KindDelete, key, nil) }

// DeleteRange deletes all keys from start to limit, limit excluded; nil means no bound. Other than DB.DeleteRange it
// reads the range and deletes each key that it finds, so it conflicts with commits of others within the range, and it
// is meant for ranges of moderate size. A start after limit is refused with an error, which Commit returns as well.
func (t *Transaction) DeleteRange(start, limit []byte) error {
	switch {
	case t.ended():
		return ErrClosed
	case t.readOnly:
		return t.refuseWrite()
	}
	if err := bulk.CheckBounds(t.db.opts.Comparer, start, limit); err != nil {
		t.batch.Refuse(err)
		return err
	}
	t.deletes = true
	it, err := t.NewIterator(&IterOptions{LowerBound: start, UpperBound: limit})
	if err != nil {
		return err
	}
	it.cursor.ShowExpired() // values without an envelope can be deleted
	for ok := it.First(); ok; ok = it.Next() {
		if err := t.Delete(it.Key()); err != nil {
			_ = it.Close()
			return err
		}
	}
	return it.Close()
}

// PutTTL is Put for a value that readers see until ttl has passed, from Commit on; see DB.PutTTL. A key under no prefix
// and a ttl that is not positive are refused at once, and after that Commit returns the error as well.
func (t *Transaction) PutTTL(key, value []byte, ttl time.Duration) error {
	if t.ended() || t.readOnly {
		return t.write(base.KindSet, key, value)
	}
	if err := t.db.scans.Expiry.CheckPut(key, ttl); err != nil {
		t.batch.Refuse(err)
		return err
	}
	t.batch.PutTTL(key, value, ttl)
	return t.batch.Refused()
}

func (t *Transaction) write(kind base.Kind, key, value []byte) error {
	switch {
	case t.ended():
		return ErrClosed
	case t.readOnly:
		return t.refuseWrite()
	}
	t.batch.Add(kind, key, value)
	return t.batch.Refused()
}

// refuseWrite returns the error of a write in a read-only transaction.
func (t *Transaction) refuseWrite() error {
	if t.db.opts.ReadOnly {
		return ErrReadOnly
	}
	return errors.Wrap(ErrReadOnly, "sievedb: a write in a read-only transaction; use Update or a transaction that is not ReadOnly")
}

// SetWriteOptions says how durable Commit makes the writes. Nil, the default, means Sync.
func (t *Transaction) SetWriteOptions(wo *WriteOptions) {
	if t != nil {
		t.options = wo
	}
}

// Close ends the transaction without writing anything. A second Close, and one after Commit,
// does nothing and returns ErrClosed. The function of Update or View must not call it; it is refused there.
func (t *Transaction) Close() error {
	if t.ended() {
		return ErrClosed
	}
	if t.within != "" {
		return t.refuseEnd("Close")
	}
	t.finish("closed without a commit")
	return nil
}

// refuseEnd returns the error of Commit or Close in the function of Update or View, which keep it.
func (t *Transaction) refuseEnd(method string) error {
	t.misuse = errors.Newf("sievedb: Transaction.%s in the function of %s, which ends the transaction by itself; "+
		"return nil to commit, or an error to give it up", method, t.within)
	return t.misuse
}

// finish ends the transaction. how says what became of it.
func (t *Transaction) finish(how string) {
	t.end, t.within = how, ""
	for len(t.walking) > 0 {
		t.forget(t.walking[len(t.walking)-1])
	}
	t.db.closeSnapshot(&t.snapshot.at)
	t.snapshot.closed.Store(true)
	t.snapshot = nil
	t.db.opened.Remove(t, counters.Transaction)
}
