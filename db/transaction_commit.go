package db

import (
	"cmp"
	"sync/atomic"
	"time"

	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/base/expiry"
	"github.com/sievedb/sievedb/internal/disk/batch"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/internal/read/lookup"
	"github.com/sievedb/sievedb/internal/write/txn"
)

// Commit writes what the transaction wrote, atomically and as durably as SetWriteOptions says, and ends it. If another
// commit has changed something that it read, Commit returns ErrConflict and nothing is written: begin a new transaction
// and do the same again. Other errors are those of Apply. The transaction has ended in any case, after ErrInListener
// too. One without writes commits nothing. Other writers wait while the writes, which are one batch, go to the log and
// the memtable: some 3 µs for each put. A second Commit returns an error that says what happened and wraps ErrClosed.
//
// The function of Update must not call it: Update commits by itself. It is refused there, nothing is
// written, and Update returns the same error.
func (t *Transaction) Commit() error {
	switch {
	case t.ended() && t != nil && t.end != "":
		return errors.Wrapf(ErrClosed, "sievedb: Commit: the transaction was %s", t.end)
	case t.ended():
		return ErrClosed
	case t.within != "":
		return t.refuseEnd("Commit")
	}
	return t.commit()
}

// commit is Commit without the checks of its use.
func (t *Transaction) commit() (err error) {
	how := "ended by a panic"
	defer func() { t.finish(how) }()
	err = t.writeAll()
	switch err {
	case nil:
		how = "committed already"
		t.db.txns.commits.Add(1)
	case ErrConflict:
		t.db.txns.conflicts.Add(1)
		how = "ended by a conflict; begin a new one"
	default:
		how = "ended by the error of an earlier Commit"
	}
	return err
}

// writeAll writes what the transaction wrote, unless it conflicts.
func (t *Transaction) writeAll() error {
	for _, it := range t.walking {
		it.cursor.EndWalk()
	}
	switch {
	case t.db.listenerCalls.InThisGoroutine():
		return ErrInListener
	case t.batch.Refused() != nil:
		return t.batch.Refused()
	case t.batch.Len() == 0 && t.deletes:
		return t.db.apply(&t.batch, NoSync, nil)
	case t.batch.Len() == 0:
		return nil
	case t.db.closed.Load():
		return ErrClosed
	case t.reads.Empty():
		return t.db.apply(&t.batch, t.options, nil)
	}
	return t.committer().Commit()
}

// transactions is what the transactions of a DB share.
type transactions struct {
	_ [64]byte // keeps these fields, and those of the DB after them, off the cache line that lookups load

	recent txn.Recent // commits
	// untraced has the changes that recent and the sequence numbers do not show.
	untraced txn.Untraced
	turns    txn.Turns // of Updates that met conflicts
	// firstTable is the number from which on tables were written since Open.
	firstTable uint64

	commits, conflicts, repeats atomic.Uint64
}

// txnStore is the store as the commit of a transaction sees it.
type txnStore struct{ *Transaction }

func (t txnStore) Visible() uint64 { return t.db.finder.VisibleSeq.Load() }

// Write also checks that no value that was read has expired, so that the order of commits stays serial.
// The commit counts as done at the store's time when the leader calls the check. That time only grows, and
// the leader calls checks in the order of commits. So each transaction is as if it had been executed at
// once at its commit: the values that it read are still the newest, by the other checks; those that were
// alive at its snapshot are alive then, by this one; and those that had expired stay so. A commit whose
// transaction saw a value gone used a time at or after its end, and the store's time is never before a time
// that a reader used: so it is never followed by one that relies on that value. If the clock jumps
// forward, the transaction conflicts, and is repeated at the new time; backward, the store's time stays.
//
// The clock is the user's and is read outside of the commit queue.
func (t txnStore) Write(check txn.Check) error {
	if ends := t.reads.Ends; ends != expiry.Never {
		others := check
		t.db.scans.Expiry.Now()
		check = func(before []*batch.Batch) error {
			if t.db.scans.Expiry.Seen() >= ends {
				return ErrConflict
			}
			return others(before)
		}
	}
	return t.db.apply(&t.batch, t.options, check)
}

// committer returns what commits the transaction; package txn describes it.
func (t *Transaction) committer() txn.Committer {
	return txn.Committer{Store: txnStore{t}, Reads: &t.reads, Recent: &t.db.txns.recent}
}

// Examine searches the runs for changes since the transaction began of what it read. The horizon is loaded first and
// the state after it, so the state has every change up to the horizon. Package txn says why nothing above it counts.
func (t txnStore) Examine() (horizon uint64, err error) {
	d, start := t.db, t.snapshot.at.Seq
	horizon = d.snapshots.Visible(&d.finder.Current)
	if horizon == start {
		return horizon, nil
	}
	s := d.finder.Ref()
	defer s.Version.Unref()
	meanwhile := txn.Numbers{First: start + 1, Last: horizon}
	for _, m := range s.Memtables() {
		if m == s.Mem || m.MaxSeq > start {
			if found, _ := t.reads.Conflict(m.NewIter(), meanwhile); found {
				return 0, ErrConflict
			}
		}
	}
	found, err := t.reads.ConflictInTables(d.tables, s.Version, meanwhile, func(f *version.FileMeta) bool { return d.txns.writtenSince(f, start) })
	if err == nil && !found {
		found, err = t.changedUntraced(s, horizon)
	}
	if found {
		return 0, ErrConflict
	}
	return horizon, err
}

// changedUntraced looks for changes since the transaction pinned its state that left no sequence numbers.
// s has all of those up to the horizon.
func (t txnStore) changedUntraced(s *lookup.State, horizon uint64) (found bool, err error) {
	pinned := t.snapshot.at.State
	if pinned == nil {
		return false, nil
	}
	c, known := t.db.txns.untraced.Between(t.snapshot.at.Seq, horizon)
	if !known || len(c.Gone)+len(c.Came) == 0 {
		return !known, nil
	}
	return t.reads.ConflictUntraced(t.db.tables, c, viewOf(pinned), viewOf(s))
}

// viewOf returns what a commit searches of a state.
func viewOf(s *lookup.State) txn.View {
	v := txn.View{Version: s.Version}
	for _, m := range s.Memtables() {
		v.Memtables = append(v.Memtables, m.Memtable)
	}
	return v
}

// writtenSince reports whether f may have entries above the sequence number start, which was
// visible to a transaction of this DB.
func (t *transactions) writtenSince(f *version.FileMeta, start uint64) bool {
	if seqs := f.Seqs.Load(); seqs != nil && seqs.Known {
		return seqs.Largest > start
	}
	return f.Num >= t.firstTable
}

// View calls fn with a read-only transaction and returns its error. All reads in fn see the
// database at one moment. The transaction ends with fn, which must not call Commit or Close.
func (d *DB) View(fn func(t *Transaction) error) error {
	if fn == nil {
		return errNilFunction("View")
	}
	t := d.NewTransaction(&TransactionOptions{ReadOnly: true})
	if t.ended() {
		return ErrClosed
	}
	t.within = "View"
	defer func() { t.finish("ended by View") }()
	return cmp.Or(fn(t), t.misuse)
}

// errNilFunction returns the error of a call without a function.
func errNilFunction(method string) error {
	return errors.Newf("sievedb: %s: the function is nil; pass the one that the transaction is to run", method)
}

// Update calls fn with a transaction and commits it. If fn returns an error, or panics, nothing is written. After a
// conflict it calls fn again with a new transaction: fn must have no effects but those on the transaction, or bear
// their repetition. After 100 conflicts in a row it returns an error that wraps ErrConflict. If fn writes what it reads
// with the DB, or with another transaction, each repetition conflicts; after a few Update returns an error that says
// so. The writes are on stable storage when it returns, unless fn calls SetWriteOptions. fn must not call Commit or
// Close: they are refused, nothing is written, and Update returns their error.
func (d *DB) Update(fn func(t *Transaction) error) error {
	switch {
	case d == nil:
		return ErrClosed
	case fn == nil:
		return errNilFunction("Update")
	case d.closed.Load():
		return ErrClosed
	}
	bypassed := false // by the last attempt
	return d.txns.turns.Retry(d.commit.Ending(), func(attempt int) error { return d.updateOnce(attempt, &bypassed, fn) })
}

// observeEvery says in which attempts the writes of an Update's function are observed, which costs each write of others
// some microseconds. If they make the conflict, the next attempt is observed too, because a function may write only
// once.
const observeEvery = 5

func (d *DB) updateOnce(attempt int, bypassed *bool, fn func(t *Transaction) error) (err error) {
	t := d.NewTransaction(nil)
	switch {
	case t.ended():
		return ErrClosed
	case t.readOnly:
		_ = t.Close()
		return ErrReadOnly
	}
	t.within = "Update"
	defer func() {
		if !t.ended() {
			t.finish("given up by Update")
		}
	}()
	if attempt > 1 {
		d.txns.repeats.Add(1)
	}
	var others []txn.Range
	if attempt%observeEvery == 0 || *bypassed {
		others, err = d.listenerCalls.observer.Observe(func() error { return fn(t) })
	} else {
		err = fn(t)
	}
	if err = cmp.Or(err, t.misuse); err != nil {
		return err
	}
	again := *bypassed
	err = t.commit()
	if *bypassed = err == ErrConflict && !t.reads.Within(others).Empty(); *bypassed && again {
		return errors.New("sievedb: Update: the function reads a key with its transaction and writes it with the DB or another " +
			"transaction, so each repetition conflicts; write it with the transaction that the function gets")
	}
	return err
}

// Modify replaces the value of key by what fn makes of it, as one atomic step. fn gets the present value, nil if there
// is none, and returns the new one, nil to delete the key. Both slices belong to fn. After an error of fn nothing is
// written, and Modify returns it. fn is called again after a conflict, as Update says. It costs one commit. If the
// present value expires, the new one expires at the same time; ModifyTTL changes that.
func (d *DB) Modify(key []byte, fn func(old []byte) ([]byte, error), wo *WriteOptions) error {
	if fn == nil && d != nil {
		return errNilFunction("Modify")
	}
	return d.ModifyTTL(key, func(old []byte, _ time.Duration) ([]byte, time.Duration, error) {
		value, err := fn(old)
		return value, KeepTTL, err
	}, wo)
}

// KeepTTL, as the time to live for ModifyTTL and CompareAndSwapTTL, is that of the present value: the new
// one expires at the same time, or never if that does not expire or there is none.
const KeepTTL time.Duration = -1

// ModifyTTL is Modify for values that expire. fn also gets the time to live that remains, 0 if the present value does
// not expire, and returns that of the new value: as for PutTTL, 0 for one that does not expire, or KeepTTL.
func (d *DB) ModifyTTL(key []byte, fn func(old []byte, ttl time.Duration) ([]byte, time.Duration, error), wo *WriteOptions) error {
	if fn == nil && d != nil {
		return errNilFunction("ModifyTTL")
	}
	return d.Update(func(t *Transaction) error {
		t.SetWriteOptions(wo)
		t.read(key)
		old, ends, err := t.snapshot.getUntil(key)
		if err != nil && err != ErrNotFound {
			return err
		}
		value, ttl, err := fn(old, expiry.Remaining(ends, t.snapshot.at.Time))
		switch {
		case err != nil:
			return err
		case value == nil:
			return t.Delete(key)
		case ttl == KeepTTL:
			t.batch.PutUntil(key, value, ends)
			return t.batch.Refused()
		case ttl == 0:
			return t.Put(key, value)
		case ttl < 0:
			return errors.Newf("sievedb: the time to live of the new value is %v; it must be positive, 0 for a value that does not "+
				"expire, or KeepTTL", ttl)
		}
		return t.PutTTL(key, value, ttl)
	})
}

// CompareAndSwap writes value under key if its present value equals old, as one atomic step, and reports whether it
// did. A nil old means that key has no value, and a nil value deletes it. It costs one commit, or none if it does not
// swap. If the present value expires, the new one expires at the same time; CompareAndSwapTTL changes that.
func (d *DB) CompareAndSwap(key, old, value []byte, wo *WriteOptions) (swapped bool, err error) {
	return d.CompareAndSwapTTL(key, old, value, KeepTTL, wo)
}

// CompareAndSwapTTL is CompareAndSwap with the time to live of the new value: as for PutTTL, 0 for one that
// does not expire, or KeepTTL.
func (d *DB) CompareAndSwapTTL(key, old, value []byte, ttl time.Duration, wo *WriteOptions) (swapped bool, err error) {
	err = d.ModifyTTL(key, func(now []byte, _ time.Duration) ([]byte, time.Duration, error) {
		swapped = (now == nil) == (old == nil) && string(now) == string(old)
		if !swapped {
			return nil, 0, errNotSwapped
		}
		return value, ttl, nil
	}, wo)
	if err != nil {
		swapped = false
	}
	if err == errNotSwapped {
		err = nil
	}
	return swapped, err
}

// errNotSwapped ends the transaction of a CompareAndSwap without writing.
var errNotSwapped = errors.Sentinel("sievedb: the value is another one")
