package db

import (
	"sync"
	"time"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/errors"
	"github.com/sievedb/sievedb/internal/tables"
	"github.com/sievedb/sievedb/internal/tracking"
)

// Loader writes entries that arrive in the order of their keys directly as tables, without
// log and memtable: every byte is written once, and nothing is merged if the database has
// nothing between them. No reader sees any of it before Commit, which makes all of it visible
// at once.
//
// A Loader is used by one goroutine at a time. Reads, writes, snapshots and compactions
// continue concurrently.
type Loader struct {
	d     *DB
	where string    // of the call of NewLoader
	begun time.Time // when it was called
	// seq numbers all entries. It was reserved far above the assigned numbers, and Commit
	// jumps to it: no snapshot or iterator from before sees the load, and it wins over every
	// earlier write. See docs/decisions/0039-loads-reserve-a-sequence-number.md.
	seq uint64

	mu      sync.Mutex // only against DB.Close
	out     *tables.Writer
	syncs   *tables.Syncs // of out
	ikey    []byte        // of the last entry
	entries uint64
	err     error // why nothing more is accepted
}

// A load reserves a number base.LoadAhead above the last assigned one. It uses a small share
// of the remaining numbers at most, so loads never exhaust them.
const (
	loadShareShift = 24
)

// NewLoader begins a load. The caller ends it with Commit or Close. There is one load at a
// time: during another one, NewLoader does not wait but returns an error that says where that
// one was begun, so that a forgotten one is found.
//
// The tables are written with Options.Tables and Options.Filters, as compactions write them.
// They use disk space during the load; the next Open removes what a crash leaves of them.
func (d *DB) NewLoader() (*Loader, error) {
	if d == nil || d.closed.Load() {
		return nil, ErrClosed
	}
	if d.opts.ReadOnly {
		return nil, ErrReadOnly
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	last := d.finder.VisibleSeq.Load()
	ahead := min(base.LoadAhead, (base.MaxSeq-last)>>loadShareShift)
	switch err := d.writeErr(); {
	case d.closed.Load():
		return nil, ErrClosed
	case err != nil:
		return nil, err
	case d.loader != nil:
		return nil, errors.Newf("sievedb: NewLoader: another load is in progress; it was begun at %s, %v ago. End it with Commit or Close, "+
			"or close the database, which gives it up", d.loader.where, time.Since(d.loader.begun).Round(time.Millisecond))
	case ahead == 0:
		return nil, errors.Newf("sievedb: too few sequence numbers for a load: %d are used, %d are the limit of the format", last, base.MaxSeq)
	}
	o := d.tableWriterOptions(0)
	o.Kind, o.Syncs = base.FileTemp, tables.NewSyncs()
	l := &Loader{d: d, where: tracking.Caller(), begun: time.Now(), seq: last + ahead, out: tables.NewWriter(o), syncs: o.Syncs}
	d.loader = l
	return l, nil
}

// Put adds a write of value under key. Both are copied. The key must be greater than all keys
// of the load, by Options.Comparer. A key above MaxKeySize or a value above MaxValueSize is
// ErrTooLarge. Any error, including a wrong order or size, ends the load: its files are
// removed, and later calls return the same error.
func (l *Loader) Put(key, value []byte) error { return l.add(base.KindSet, key, value) }

// Delete adds a deletion of key. Otherwise it is like Put.
func (l *Loader) Delete(key []byte) error { return l.add(base.KindDelete, key, nil) }

func (l *Loader) add(kind base.Kind, key, value []byte) error {
	if l == nil || l.d == nil {
		return ErrClosed
	}
	if err := l.lock(); err != nil {
		return err
	}
	defer l.mu.Unlock()
	if l.err != nil {
		return l.err
	}
	returned := false
	defer func() {
		if !returned {
			l.panickedLocked(recover())
		}
	}()
	err := l.write(kind, key, value)
	returned = true
	if err != nil {
		l.endLocked(base.NoSpace(err))
		return l.err
	}
	l.entries++
	return nil
}

func (l *Loader) write(kind base.Kind, key, value []byte) error {
	if err := checkEntry(key, value); err != nil {
		return errors.Wrapf(err, "sievedb: load: entry %d", l.entries+1)
	}
	if l.entries > 0 {
		switch order := l.d.cmp.Compare(key, base.UserKey(l.ikey)); {
		case order == 0:
			return errors.Newf("sievedb: load: entry %d has the key of the one before it; want rising keys, each once", l.entries+1)
		case order < 0:
			return errors.Newf("sievedb: load: the key of entry %d sorts before that of the one before it; want rising keys by comparer %q", l.entries+1, l.d.cmp.Name)
		}
	}
	l.ikey = base.AppendInternalKey(l.ikey[:0], key, l.seq, kind)
	if l.out.Open() && l.out.Size() >= uint64(l.d.opts.Tables.Size) {
		if err := l.out.EndTable(); err != nil {
			return errors.Wrap(err, "sievedb: load: writing a table")
		}
	}
	if !l.out.Open() && l.d.plan.ByLevel() {
		l.out.SetFilter(l.d.plan.LoadBits(l.entries).Policies(l.d.opts.Filters.Policy))
	}
	return errors.Wrap(l.out.Add(l.ikey, value), "sievedb: load: writing a table")
}

// Commit makes the whole load visible at this moment, above all earlier writes, and durable
// when it returns. It also makes every write acknowledged before durable, whatever its
// WriteOptions were. Writers wait while Commit flushes the few writes since it began and
// records the tables in the MANIFEST. A load without entries commits nothing.
//
// After an error nothing is visible, the load is discarded and its files are removed. The
// database continues unless that error ended its writes. As with a failed write, the whole
// load may be present when the database is opened again.
func (l *Loader) Commit() error {
	if l == nil || l.d == nil {
		return ErrClosed
	}
	if l.d.listenerCalls.InThisGoroutine() {
		return ErrInListener
	}
	info, err := l.commitAndEnd()
	if info == nil {
		return err
	}
	notify(l.d, l.d.opts.EventListener.LoadEnd, *info) // not under l.mu: it may call Close
	if err != nil {
		return err
	}
	l.d.opts.Logger.Info("loaded", "entries", info.Entries, "bytes", info.Bytes, "tables", info.Tables, "took", info.Duration)
	return nil
}

// commitAndEnd is Commit without its event. The info is nil if there was nothing to commit.
func (l *Loader) commitAndEnd() (*LoadInfo, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return nil, l.err
	}
	if l.entries == 0 {
		l.endLocked(ErrClosed)
		return nil, nil
	}
	returned := false
	defer func() {
		if !returned {
			l.panickedLocked(recover())
		}
	}()
	start := time.Now()
	info := &LoadInfo{Entries: l.entries}
	err := base.NoSpace(l.commit(info))
	info.Duration, info.Err = time.Since(start), err
	if err != nil {
		l.endLocked(err)
	} else {
		l.endLocked(ErrClosed)
	}
	returned = true
	return info, err
}

// Close discards a load that was not committed and removes its files. After Commit, an error
// or another Close it does nothing. It returns nil, ErrClosed for a nil or zero Loader, and
// ErrInListener as EventListener says.
func (l *Loader) Close() error {
	if l == nil || l.d == nil {
		return ErrClosed
	}
	if err := l.lock(); err != nil {
		return err
	}
	defer l.mu.Unlock()
	if l.err == nil {
		l.endLocked(ErrClosed)
	}
	return nil
}

// lock locks l.mu, except for a call from a listener during another call, which may be waiting
// for that listener.
func (l *Loader) lock() error {
	if l.mu.TryLock() {
		return nil
	}
	if l.d.listenerCalls.InThisGoroutine() {
		return ErrInListener
	}
	l.mu.Lock()
	return nil
}

// endLocked ends the load: later calls return err. l.mu is held.
func (l *Loader) endLocked(err error) {
	l.err = err
	_ = l.syncs.Wait() // the files are durable or will be removed
	l.out.Abandon()
	l.d.mu.Lock()
	defer l.d.mu.Unlock()
	l.d.loader = nil
}

// panickedLocked ends a load whose call panicked with value, and continues the panic.
func (l *Loader) panickedLocked(value any) {
	err := base.NewPanicError(l.d.cmp, "a load", value)
	if l.err == nil {
		_ = base.Catch(l.d.cmp, "a load", func() error { l.endLocked(err); return nil })
	}
	if value != nil {
		panic(value)
	}
}

// giveUpLoad ends the present load and returns it, or nil. The store is closed: no other load
// begins.
func (d *DB) giveUpLoad() *Loader {
	d.mu.Lock()
	l := d.loader
	d.mu.Unlock()
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil { // it has just ended by itself
		return nil
	}
	l.endLocked(ErrClosed)
	return l
}
