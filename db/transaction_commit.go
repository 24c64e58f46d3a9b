package db

import (
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/batch"
	"github.com/sievedb/sievedb/internal/errors"
	"github.com/sievedb/sievedb/internal/manifest"
	"github.com/sievedb/sievedb/internal/tables"
	"github.com/sievedb/sievedb/internal/txn"
	"github.com/sievedb/sievedb/sstable"
)

// Commit writes what the transaction wrote, atomically and as durably as SetWriteOptions says,
// and ends it. If another commit has changed something that it read, Commit returns ErrConflict
// and nothing is written: begin a new transaction and do the same again. Other errors are those
// of Apply. The transaction has ended in any case. One without writes commits nothing.
func (t *Transaction) Commit() error {
	if t.ended() {
		return ErrClosed
	}
	if t.db.listenerCalls.InThisGoroutine() {
		return ErrInListener
	}
	defer func() { _ = t.Close() }()
	for _, it := range t.walking {
		it.cursor.EndWalk()
	}
	switch {
	case t.batch.refused != nil:
		return t.batch.refused
	case t.batch.Len() == 0:
		return nil
	case t.db.closed.Load():
		return ErrClosed
	case t.reads.Empty():
		return t.db.apply(&t.batch, t.options, nil)
	}
	t.reads.Prepare()
	return t.commitChecked()
}

// examinations bounds how often a transaction is examined outside of the commit queue. Once is
// enough unless a load, or a great many writes, were committed meanwhile.
const examinations = 3

// errExamineAgain says that the examination of a transaction does not cover all commits.
var errExamineAgain = errors.Sentinel("sievedb: the transaction must be examined again")

// commitChecked is Commit for a transaction with reads and writes; package txn describes it.
func (t *Transaction) commitChecked() error {
	t.db.recent.Begin()
	defer t.db.recent.End()
	for n := 0; ; n++ {
		horizon, err := t.examine()
		if err != nil {
			return err
		}
		err = t.db.apply(&t.batch, t.options, func(before []*commitRequest) error {
			return t.check(before, horizon, n == examinations)
		})
		if err != errExamineAgain {
			return err
		}
	}
}

// check compares the reads with the commits above horizon, and with the requests that the leader
// commits before this one. Only the leader runs it.
func (t *Transaction) check(before []*commitRequest, horizon uint64, last bool) error {
	recent := &t.db.recent
	if !recent.Covers(horizon, t.db.finder.VisibleSeq.Load()) {
		if !last {
			return errExamineAgain
		}
		// Nothing is committed now, so this covers everything.
		if _, err := t.examine(); err != nil {
			return err
		}
	} else if recent.Conflict(&t.reads, horizon) {
		return ErrConflict
	}
	for _, r := range before {
		if b := r.batch; b.Len() > 0 && txn.BatchConflict(&t.reads, b.data[batch.HeaderLen:], b.entries) {
			return ErrConflict
		}
	}
	return nil
}

// examine searches the runs for changes since the transaction began of what it read, up to the
// horizon that it returns, and perhaps beyond.
func (t *Transaction) examine() (horizon uint64, err error) {
	d, start := t.db, t.snapshot.at.Seq
	horizon = d.finder.VisibleSeq.Load()
	if t.snapshot.at.State != nil && d.deleter.Dropped() >= start {
		return 0, ErrConflict // a DeleteRange removed tables without leaving a trace of their keys
	}
	if horizon == start {
		return horizon, nil
	}
	s := d.finder.Ref()
	defer s.Version.Unref()
	for _, m := range s.Memtables() {
		if m == s.Mem || m.MaxSeq > start {
			if found, _ := t.reads.Conflict(m.NewIter(), start); found {
				return 0, ErrConflict
			}
		}
	}
	for level := range s.Version.Levels {
		for _, f := range s.Version.Levels[level].Files {
			if !d.writtenSince(f, start) {
				continue
			}
			run := tables.NewLevelIter(d.tables, d.cmp, []*manifest.FileMeta{f}, sstable.IterOptions{})
			found, err := t.reads.Conflict(run, start)
			err = errors.CombineErrors(err, run.Close())
			switch {
			case err != nil:
				return 0, errors.Wrap(base.NoSpace(err), "sievedb: commit: looking for changes of what the transaction read")
			case found:
				return 0, ErrConflict
			}
		}
	}
	return horizon, nil
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
// database at one moment. The transaction ends with fn.
func (d *DB) View(fn func(t *Transaction) error) error {
	t := d.NewTransaction(&TransactionOptions{ReadOnly: true})
	if t.ended() {
		return ErrClosed
	}
	defer func() { _ = t.Close() }()
	return fn(t)
}

// updateAttempts bounds how often Update calls its function. After shyAttempts conflicts, Updates
// take turns.
const (
	updateAttempts = 100
	shyAttempts    = 2
)

// Update calls fn with a transaction and commits it. If fn returns an error, or panics, nothing
// is written. After a conflict it calls fn again with a new transaction: fn must have no effects
// but those on the transaction, or bear their repetition. After 100 conflicts in a row it returns
// an error that wraps ErrConflict. The writes are on stable storage when it returns, unless fn
// calls SetWriteOptions. fn must not call Commit or Close.
func (d *DB) Update(fn func(t *Transaction) error) error {
	turn := false
	for attempt := 1; ; attempt++ {
		err := d.updateOnce(fn)
		if err != ErrConflict {
			return err
		}
		if attempt == updateAttempts {
			return errors.Wrapf(err, "sievedb: Update: gave up after %d attempts", attempt)
		}
		if attempt >= shyAttempts && !turn {
			if turn = d.turns.Take(attempt, d.closing); turn {
				defer d.turns.End()
			}
		}
	}
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
	defer func() { _ = t.Close() }()
	if err := fn(t); err != nil {
		return err
	}
	return t.Commit()
}

// Modify replaces the value of key by what fn makes of it, as one atomic step. fn gets the
// present value, nil if there is none, and returns the new one, nil to delete the key. Both
// slices belong to fn. After an error of fn nothing is written, and Modify returns it. fn is
// called again after a conflict, as Update says. It costs one commit.
func (d *DB) Modify(key []byte, fn func(old []byte) ([]byte, error), wo *WriteOptions) error {
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
