package db

import (
	"time"

	"github.com/sievedb/sievedb/internal/read/counters"
	"github.com/sievedb/sievedb/internal/write/bulk"
	"github.com/sievedb/sievedb/report"
)

// Loader writes entries that arrive in the order of their keys directly as tables, without log and memtable: every byte
// is written once, and nothing is merged if the database has nothing between them. No reader sees any of it before
// Commit, which makes all of it visible at once.
//
// A Loader is used by one goroutine at a time. Reads, writes, snapshots and compactions continue concurrently.
type Loader struct {
	d    *DB
	load *bulk.Loader
}

// NewLoader begins a load. The caller ends it with Commit or Close. Any number of loads may be in progress at once. If
// several have a key, the one that is committed last has precedence. Commits in the order in which the loads were begun
// are fastest. In another order, tables that overlap what was committed meanwhile are rewritten, as by Ingest.
//
// A load keeps the index and the filter's hashes of the table that it writes in memory, and blocks
// that wait for the disk: by default a few MB, and a twelfth of 64 MiB more in a database of many GB.
//
// The tables are written with Options.Tables and Options.Filters, as compactions write them.
// They use disk space during the load; the next Open removes what a crash leaves of them.
func (d *DB) NewLoader() (*Loader, error) {
	if err := d.loadable(); err != nil {
		return nil, err
	}
	l, err := d.bulk.NewLoader("load", counters.CallSite())
	if err != nil {
		return nil, err
	}
	return &Loader{d, l}, nil
}

// loadable returns why no load can begin.
func (d *DB) loadable() error {
	if err := d.guard(toWrite); err != nil {
		return err
	}
	return d.commit.Err()
}

// Put adds a write of value under key. Both are copied. The key must be greater than all keys of the load, by
// Options.Comparer. A key above MaxKeySize or a value above MaxValueSize is ErrTooLarge. Any error, including a wrong
// order or size, ends the load: its files are removed, and later calls return the same error.
func (l *Loader) Put(key, value []byte) error {
	if l == nil || l.load == nil {
		return ErrClosed
	}
	return l.load.Put(key, value)
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
	return l.load.Delete(key)
}

// Commit makes the whole load visible at this moment, above all earlier writes, and durable when it returns. It also
// makes every write acknowledged before durable, whatever its WriteOptions were. Writers wait while Commit flushes the
// few writes since it began and records the tables in the MANIFEST. Commit waits for a DeleteRange that runs. A load
// without entries commits nothing.
//
// After an error nothing is visible, the load is discarded and its files are removed. The database continues unless
// that error ended its writes. As with a failed write, the whole load may be present when the database is opened again.
func (l *Loader) Commit() error {
	if l == nil || l.d == nil {
		return ErrClosed
	}
	if l.d.listenerCalls.InThisGoroutine() {
		return ErrInListener
	}
	return l.d.loaded(l.load.Commit())
}

// loaded reports the result of a load's Commit, and returns its error.
func (d *DB) loaded(info *report.LoadInfo, err error) error {
	if info == nil {
		return err
	}
	if err = d.orReadOnly(err); err == nil {
		d.counters.noteLoad(info)
	}
	notify(&d.listenerCalls, d.opts.EventListener.LoadEnd, *info) // the loader is not locked: it may call Close
	if err != nil {
		return err
	}
	d.opts.Logger.Info("loaded", "entries", info.Entries, "bytes", info.Bytes, "tables", info.Tables, "took", info.Duration)
	return nil
}

// noteLoad counts a load that was committed.
func (c *dbCounters) noteLoad(info *report.LoadInfo) {
	c.loads.Add(1)
	for _, n := range info.Tables {
		c.loadTables.Add(uint64(n))
	}
	c.loadBytes.Add(info.Bytes)
}

// Close discards a load that was not committed and removes its files. After Commit, an error or another Close it does
// nothing. It returns nil, ErrClosed for a nil or zero Loader, and ErrInListener as EventListener says.
func (l *Loader) Close() error {
	if l == nil || l.d == nil {
		return ErrClosed
	}
	return l.load.Close()
}
