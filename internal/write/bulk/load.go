package bulk

import (
	"slices"
	"sync"
	"time"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/base/expiry"
)

// Loader is a load in progress: entries that arrive in the order of their keys. It is used by one goroutine at a
// time. Its lock is only against GiveUp and against a listener of the store.
type Loader struct {
	c           *Coordinator
	what, where string // it is, and it was begun

	mu     sync.Mutex
	run    *run
	sealed []byte       // scratch for a value with its envelope
	err    error        // why nothing more is accepted
	tx     *Transaction // the writes in any order; nil: they are in the order of their keys
}

// NewLoader begins a load. For errors, what says what it is, and where which line of the program began it.
//
// All entries get a number far above the assigned ones and above those of other loads, and Commit jumps to it. See
// docs/decisions/0039-loads-reserve-a-sequence-number.md.
func (c *Coordinator) NewLoader(what, where string) (*Loader, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended != nil {
		return nil, c.ended
	}
	last := c.Current.VisibleSeq.Load()
	for _, other := range c.loads {
		last = max(last, other.run.seq)
	}
	seq, err := reserve("a load", last, base.LoadAhead)
	if err != nil {
		return nil, errors.Wrap(err, "sievedb")
	}
	l := &Loader{c: c, what: what, where: where, run: c.newRun(seq, 0)}
	c.loads = append(c.loads, l)
	return l, nil
}

// Put adds a value. It gets its envelope here, if its key is to have one.
func (l *Loader) Put(key, value []byte) error { return l.put(key, value, 0) }

// PutTTL is Put for a value that expires after ttl, which must be positive.
func (l *Loader) PutTTL(key, value []byte, ttl time.Duration) error {
	if err := expiry.CheckTTL(ttl); err != nil {
		return l.fail(err)
	}
	return l.put(key, value, ttl)
}

func (l *Loader) put(key, value []byte, ttl time.Duration) error {
	sealed, err := l.seal(key, value, ttl)
	if err != nil {
		return l.fail(err)
	}
	return l.add(base.KindSet, key, sealed)
}

// seal returns a value with its envelope, if the values of its key have one. It is valid until the next call.
func (l *Loader) seal(key, value []byte, ttl time.Duration) ([]byte, error) {
	sealed, err := l.c.Expiry.Seal(l.sealed, key, value, ttl)
	if err == nil && l.c.Expiry.Under(key) {
		l.sealed = sealed
	}
	return sealed, err
}

// Delete adds a deletion.
func (l *Loader) Delete(key []byte) error { return l.add(base.KindDelete, key, nil) }

// fail ends the load because of err, which it returns, unless it has ended.
func (l *Loader) fail(err error) error {
	return l.during(func() error {
		l.endLocked(err)
		return err
	})
}

// add adds an entry, whose value has its envelope. Any error ends the load: its files are removed, and later calls
// return the same error.
func (l *Loader) add(kind base.Kind, key, value []byte) error {
	if err := l.begin(); err != nil {
		return err
	}
	defer l.mu.Unlock()
	return l.writeLocked(func() error { return l.run.add(kind, key, value) })
}

// writeLocked calls f, which writes tables. An error or a panic ends the load. l.mu is held.
func (l *Loader) writeLocked(f func() error) error {
	err := l.guardLocked(f)
	if err != nil {
		err = base.NoSpace(errors.Wrap(err, "sievedb: load"))
		l.endLocked(err)
	}
	return err
}

// during calls f under the lock, unless the load has ended.
func (l *Loader) during(f func() error) error {
	if err := l.begin(); err != nil {
		return err
	}
	defer l.mu.Unlock()
	return f()
}

// begin locks l.mu for a call of the load. It returns why the load has ended instead, or ErrInListener for a call
// from a listener during another call, which may be waiting for that listener.
func (l *Loader) begin() error {
	if !l.mu.TryLock() {
		if l.c.InListener() {
			return base.ErrInListener
		}
		l.mu.Lock()
	}
	if l.err != nil {
		defer l.mu.Unlock()
		return l.err
	}
	return nil
}

// Close discards the load, unless it has ended.
func (l *Loader) Close() error {
	if l.fail(base.ErrClosed) == base.ErrInListener {
		return base.ErrInListener
	}
	return nil
}

// giveUp is Close for the store, which does not write any more. Later calls return why. It reports whether the load
// had not ended.
func (l *Loader) giveUp(why error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return false
	}
	l.endLocked(why)
	return true
}

// endLocked ends the load: later calls return err. l.mu is held.
func (l *Loader) endLocked(err error) {
	l.err = err
	if l.tx != nil {
		l.run.take()
		defer l.tx.tables.Unref() // removes them when no iterator needs them
	}
	l.run.discard()
	l.c.mu.Lock()
	defer l.c.mu.Unlock()
	l.c.loads = slices.DeleteFunc(l.c.loads, func(other *Loader) bool { return other == l })
}

// guardLocked calls f. If that panics, the load ends, and the panic continues. l.mu is held.
func (l *Loader) guardLocked(f func() error) error {
	returned := false
	defer func() {
		if !returned {
			l.panickedLocked(recover())
		}
	}()
	err := f()
	returned = true
	return err
}

func (l *Loader) panickedLocked(value any) {
	err := base.NewPanicError(l.c.Cmp, "a load", value)
	if l.err == nil {
		_ = base.Catch(l.c.Cmp, "a load", func() error { l.endLocked(err); return nil })
	}
	if value != nil {
		panic(value)
	}
}
