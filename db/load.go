package db

import (
	"context"
	"slices"
	"time"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/batch"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/read/lookup"
	"github.com/sievedb/sievedb/internal/tracking"
	"github.com/sievedb/sievedb/internal/work/feed"
	"github.com/sievedb/sievedb/internal/write/load"
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
	load  *load.Loader
	what  string // it is, for errors
	where string // of the call that began it
}

// NewLoader begins a load. The caller ends it with Commit or Close. Any number of loads may be in
// progress at once. If several have a key, the one that is committed last has precedence. Commits
// in the order in which the loads were begun are fastest. In another order, tables that overlap
// what was committed meanwhile are rewritten, as by Ingest.
//
// A load keeps the index and the filter's hashes of the table that it writes in memory, and blocks
// that wait for the disk: a few MB with the default Options.Tables.Size, however large the load is.
//
// The tables are written with Options.Tables and Options.Filters, as compactions write them.
// They use disk space during the load; the next Open removes what a crash leaves of them.
func (d *DB) NewLoader() (*Loader, error) { return d.beginLoad("load") }

// beginLoad is NewLoader for a load that errors call what.
func (d *DB) beginLoad(what string) (*Loader, error) {
	if d == nil || d.closed.Load() {
		return nil, ErrClosed
	}
	if d.opts.ReadOnly {
		return nil, ErrReadOnly
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch err := d.writeErr(); {
	case d.closed.Load():
		return nil, ErrClosed
	case err != nil:
		return nil, err
	}
	// All entries get a number far above the assigned ones and above those of other loads, and
	// Commit jumps to it: no snapshot or iterator from before sees the load, and it wins over every
	// earlier write. See docs/decisions/0039-loads-reserve-a-sequence-number.md.
	last := d.finder.VisibleSeq.Load()
	for _, other := range d.loaders {
		last = max(last, other.load.Seq)
	}
	seq, err := load.Reserve(last)
	if err != nil {
		return nil, err
	}
	l := &Loader{d: d, what: what, where: tracking.Caller()}
	o := d.loadOptions(seq)
	o.Ended = func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.loaders = slices.DeleteFunc(d.loaders, func(other *Loader) bool { return other == l })
	}
	l.load = load.New(o, (*loadHost)(d))
	d.loaders = append(d.loaders, l)
	return l, nil
}

// loadOptions returns the options of a load with sequence number seq.
func (d *DB) loadOptions(seq uint64) load.Options {
	return load.Options{
		Cmp: d.cmp, Compactor: d.compactor, Writer: d.tableWriterOptions(0), TableSize: uint64(d.options().Tables.Size),
		Plan: d.plan, Policy: d.opts.Filters.Policy, Seq: seq, Check: batch.CheckEntry, Expiry: d.expiry, InListener: d.listenerCalls.InThisGoroutine,
		Overtaken: d.commitOvertaken,
	}
}

// commitOvertaken commits the tables of a load whose number is too low by now, as tables made elsewhere.
func (d *DB) commitOvertaken(files []*manifest.FileMeta, info *load.Info) error {
	got, err := d.newIngester(feed.Load, false).Adopt(context.Background(), files)
	info.Tables, info.Bytes = got.Tables, got.BytesCopied+got.BytesRewritten
	return err
}

// Put adds a write of value under key. Both are copied. The key must be greater than all keys
// of the load, by Options.Comparer. A key above MaxKeySize or a value above MaxValueSize is
// ErrTooLarge. Any error, including a wrong order or size, ends the load: its files are
// removed, and later calls return the same error.
func (l *Loader) Put(key, value []byte) error {
	if l == nil || l.load == nil {
		return ErrClosed
	}
	return l.load.Put(key, value, 0)
}

// PutTTL is Put for a value that readers see until ttl has passed, from this call on; see
// DB.PutTTL. A wrong use of it ends the load, too.
func (l *Loader) PutTTL(key, value []byte, ttl time.Duration) error {
	if l == nil || l.load == nil {
		return ErrClosed
	}
	return l.load.PutTTL(key, value, ttl)
}

// Delete adds a deletion of key. Otherwise it is like Put.
func (l *Loader) Delete(key []byte) error {
	if l == nil || l.load == nil {
		return ErrClosed
	}
	return l.load.Add(base.KindDelete, key, nil)
}

// Commit makes the whole load visible at this moment, above all earlier writes, and durable
// when it returns. It also makes every write acknowledged before durable, whatever its
// WriteOptions were. Writers wait while Commit flushes the few writes since it began and
// records the tables in the MANIFEST. Commit waits for a DeleteRange that runs. A load without
// entries commits nothing.
//
// After an error nothing is visible, the load is discarded and its files are removed. The
// database continues unless that error ended its writes. As with a failed write, the whole
// load may be present when the database is opened again.
func (l *Loader) Commit() error {
	if l == nil || l.d == nil {
		return ErrClosed
	}
	d := l.d
	if d.listenerCalls.InThisGoroutine() {
		return ErrInListener
	}
	info, err := l.load.Commit()
	if info == nil {
		return err
	}
	if err = d.orReadOnly(err); err == nil {
		d.counters.noteLoad(info)
	}
	notify(d, d.opts.EventListener.LoadEnd, LoadInfo(*info)) // the loader is not locked: it may call Close
	if err != nil {
		return err
	}
	d.opts.Logger.Info("loaded", "entries", info.Entries, "bytes", info.Bytes, "tables", info.Tables, "took", info.Duration)
	return nil
}

// noteLoad counts a load that was committed.
func (c *dbCounters) noteLoad(info *load.Info) {
	c.loads.Add(1)
	for _, n := range info.Tables {
		c.loadTables.Add(uint64(n))
	}
	c.loadBytes.Add(info.Bytes)
}

// Close discards a load that was not committed and removes its files. After Commit, an error
// or another Close it does nothing. It returns nil, ErrClosed for a nil or zero Loader, and
// ErrInListener as EventListener says.
func (l *Loader) Close() error {
	if l == nil || l.d == nil {
		return ErrClosed
	}
	return l.load.Close()
}

// giveUpLoads ends the present loads, which fail with why from then on, and returns them. No other load begins.
func (d *DB) giveUpLoads(why error) []*Loader {
	d.mu.Lock()
	loaders := slices.Clone(d.loaders)
	d.mu.Unlock()
	return slices.DeleteFunc(loaders, func(l *Loader) bool { return !l.load.GiveUp(why) })
}

// loadHost is the store as a load sees it.
type loadHost DB

func (h *loadHost) Flush() error    { return (*DB)(h).flushInPause((*DB)(h).Flush) }
func (h *loadHost) LastSeq() uint64 { return h.log.lastSeq }

func (h *loadHost) Lead(f func() error) error {
	end, err := h.deleter.Exclude(context.Background())
	if err != nil {
		return err
	}
	defer end()
	return h.commit.run((*DB)(h), &commitRequest{alone: func(*DB) error { return f() }})
}

func (h *loadHost) FlushLed() error {
	if err := (*DB)(h).flushInPause((*DB)(h).flushActive); err != nil {
		return err
	}
	return (*DB)(h).waitForMemtables()
}

func (h *loadHost) Between(f func() error) error { return h.set.Between(f) }

func (h *loadHost) Install(edit *manifest.Edit, written []*manifest.FileMeta, seq uint64) error {
	return h.install(feed.Load, feed.Event{}, edit, written, seq, nil)
}

// install is Install for a change of a kind, with the last argument of applyEdit.
func (h *loadHost) install(
	kind feed.Kind, e feed.Event, edit *manifest.Edit, written []*manifest.FileMeta, seq uint64, also func(*lookup.State),
) error {
	change, err := (*DB)(h).beginChange(kind, e, edit, seq)
	if err != nil {
		(*DB)(h).removeTables(written)
		return err
	}
	err = (*DB)(h).applyEdit(edit, written, also)
	if err == nil {
		change.Commit()
	} else {
		change.Abandon(manifest.IsUncertain(err), seq)
	}
	if err == nil || manifest.IsUncertain(err) {
		h.log.lastSeq = seq
		h.recent.Forget(seq)
		h.finder.VisibleSeq.Store(seq)
	}
	if err == nil {
		h.log.logged = seq
		h.synced.Store(seq)
		if h.changes != nil {
			(*DB)(h).wakeReaders()
		}
	}
	return err
}
