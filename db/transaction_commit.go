package db

import (
	"cmp"

	"github.com/sievedb/sievedb/internal/errors"
	"github.com/sievedb/sievedb/internal/lookup"
	"github.com/sievedb/sievedb/internal/manifest"
	"github.com/sievedb/sievedb/internal/txn"
)

// Commit writes what the transaction wrote, atomically and as durably as SetWriteOptions says,
// and ends it. If another commit has changed something that it read, Commit returns ErrConflict
// and nothing is written: begin a new transaction and do the same again. Other errors are those
// of Apply. The transaction has ended in any case, after ErrInListener too. One without writes
// commits nothing. Other writers wait while the writes, which are one batch, go to the log and the memtable: some 3 µs
// for each put. A second Commit returns an error that says what happened and wraps ErrClosed.
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
	case ErrConflict:
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
	case t.batch.Len() == 0:
		return nil
	case t.db.closed.Load():
		return ErrClosed
	case t.reads.Empty():
		return t.db.apply(&t.batch, t.options, nil)
	}
	return t.committer().Commit()
}

// txnStore is the store as the commit of a transaction sees it.
type txnStore struct{ *Transaction }

func (t txnStore) Visible() uint64 { return t.db.finder.VisibleSeq.Load() }

func (t txnStore) Write(check txn.Check) error { return t.db.apply(&t.batch, t.options, check) }

// committer returns what commits the transaction; package txn describes it.
func (t *Transaction) committer() txn.Committer {
	return txn.Committer{Store: txnStore{t}, Reads: &t.reads, Recent: &t.db.recent}
}

// Examine searches the runs for changes since the transaction began of what it read. The horizon is
// loaded first and the state after it, so the state has every change up to the horizon. Package txn says
// why nothing above it counts.
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
	found, err := t.reads.ConflictInTables(d.tables, s.Version, meanwhile, func(f *manifest.FileMeta) bool { return d.writtenSince(f, start) })
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
	c, known := t.db.untraced.Between(t.snapshot.at.Seq, horizon)
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
func (d *DB) writtenSince(f *manifest.FileMeta, start uint64) bool {
	if seqs := f.Seqs.Load(); seqs != nil && seqs.Known {
		return seqs.Largest > start
	}
	return f.Num >= d.firstTable
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

// Update calls fn with a transaction and commits it. If fn returns an error, or panics, nothing
// is written. After a conflict it calls fn again with a new transaction: fn must have no effects
// but those on the transaction, or bear their repetition. After 100 conflicts in a row it returns
// an error that wraps ErrConflict. The writes are on stable storage when it returns, unless fn
// calls SetWriteOptions. fn must not call Commit or Close: they are refused, nothing is written, and
// Update returns their error.
func (d *DB) Update(fn func(t *Transaction) error) error {
	switch {
	case d == nil:
		return ErrClosed
	case fn == nil:
		return errNilFunction("Update")
	}
	return d.turns.Retry(d.closing, func() error { return d.updateOnce(fn) })
}

func (d *DB) updateOnce(fn func(t *Transaction) error) error {
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
	if err := cmp.Or(fn(t), t.misuse); err != nil {
		return err
	}
	return t.commit()
}

// Modify replaces the value of key by what fn makes of it, as one atomic step. fn gets the
// present value, nil if there is none, and returns the new one, nil to delete the key. Both
// slices belong to fn. After an error of fn nothing is written, and Modify returns it. fn is
// called again after a conflict, as Update says. It costs one commit.
func (d *DB) Modify(key []byte, fn func(old []byte) ([]byte, error), wo *WriteOptions) error {
	if fn == nil && d != nil {
		return errNilFunction("Modify")
	}
	return d.Update(func(t *Transaction) error {
		t.SetWriteOptions(wo)
		old, err := t.Get(key)
		if err != nil && err != ErrNotFound {
			return err
		}
		value, err := fn(old)
		switch {
		case err != nil:
			return err
		case value == nil:
			return t.Delete(key)
		}
		return t.Put(key, value)
	})
}

// CompareAndSwap writes value under key if its present value equals old, as one atomic step, and
// reports whether it did. A nil old means that key has no value, and a nil value deletes it. It
// costs one commit, or none if it does not swap.
func (d *DB) CompareAndSwap(key, old, value []byte, wo *WriteOptions) (swapped bool, err error) {
	err = d.Modify(key, func(now []byte) ([]byte, error) {
		swapped = (now == nil) == (old == nil) && string(now) == string(old)
		if !swapped {
			return nil, errNotSwapped
		}
		return value, nil
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
