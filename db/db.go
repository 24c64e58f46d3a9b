package db

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/sievedb/sievedb"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/dbdir"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/disk/tables"
	"github.com/sievedb/sievedb/internal/limit/share"
	"github.com/sievedb/sievedb/internal/read/counters"
	"github.com/sievedb/sievedb/internal/read/lookup"
	"github.com/sievedb/sievedb/internal/read/scan"
	"github.com/sievedb/sievedb/internal/work/compact"
	"github.com/sievedb/sievedb/internal/write/bulk"
	"github.com/sievedb/sievedb/internal/write/commit"
	"github.com/sievedb/sievedb/internal/write/flush"
	"github.com/sievedb/sievedb/report"
)

// The errors of the public API. Test for them with errors.Is.
var (
	// ErrNotFound says that a key has no value. It is returned without wrapping.
	ErrNotFound = base.ErrNotFound
	// ErrCorruption matches every error about damaged files. Such an error is a *CorruptionError as well.
	ErrCorruption = base.ErrCorruption
	// ErrNewer matches every error about a file that a newer version of SieveDB wrote and this
	// one does not know. Such an error is a *NewerError as well, and is not ErrCorruption:
	// nothing is damaged, and Repair refuses such a directory.
	ErrNewer = base.ErrNewer
	// ErrClosed is returned by every method of a closed value, and of a nil or zero DB, Snapshot, Iterator or Loader.
	ErrClosed = base.ErrClosed
	// ErrReadOnly refuses a write: the database was opened read-only, SetReadOnly was called, or
	// an earlier failure, which the error names, ended its writes.
	ErrReadOnly = base.ErrReadOnly
	// ErrNoSpace says that the disk is full. Nothing acknowledged is lost. Reads continue, and writes resume once there
	// is space, unless the error is ErrReadOnly as well: then the database must be opened again.
	ErrNoSpace = base.ErrNoSpace
	// ErrInListener is returned by methods that would wait for themselves if they were called
	// from a function of the EventListener; see there.
	ErrInListener = base.ErrInListener
	// ErrForeign says that the directory holds a database of another storage engine, such
	// as RocksDB, Pebble or Badger, or that the path is such a database. Open, Repair
	// and Destroy then leave it as it is. Ingest returns it for a table of such an engine.
	ErrForeign = base.ErrForeign
	// ErrLocked says that another process, or this one, has the directory open.
	ErrLocked = base.ErrLocked
	// ErrTooLarge refuses a write above MaxKeySize, MaxValueSize or MaxBatchSize, which the error names.
	ErrTooLarge = base.ErrTooLarge
	// ErrConflict is returned by Transaction.Commit, without wrapping, if another commit
	// changed something that the transaction had read. Nothing is written.
	ErrConflict = base.ErrConflict
)

// CorruptionError says which bytes of which file are damaged, and how. Fields: File, Part, Offset, Detail.
type CorruptionError = sievedb.CorruptionError

// NewerError says which part of which file this version does not know. Fields: File, Part, Offset, Found.
type NewerError = sievedb.NewerError

// PanicError is the error for a panic of code that Options bring in (Comparer, filter policies, Compaction.Filter,
// FS, EventListener, Logger), or of the store itself, if it cannot continue to a caller as a panic. Use errors.As to
// get it. Fields: During, Value, Stack, Comparer, Place.
type PanicError = sievedb.PanicError

// DB is an open database. Use Open to get one: every method of a nil or zero DB that
// returns an error returns ErrClosed.
type DB struct {
	parts
	live
}

// parts are what Open makes, each of finished ones: opening has the order. They do not change, and do not know the DB.
type parts struct {
	opts      Options // with all defaults filled in, as of Open; see options for those that can change
	inForce   *optionsInForce
	share     *share.Store     // nil: nothing is shared
	dir       *dbdir.Dir       // with its lock and its reserve
	follower  *follower        // nil: dir is locked
	files     tables.Directory // dir, or what follower sees of it
	commit    *commit.Committer
	tables    *tables.Cache // those that are open
	set       *manifest.Set // of versions
	feeds     feeds         // of changes
	scans     scan.Source   // for iterators
	writers   tableWriters  // of new tables
	compactor *compact.Scheduler
	bulk      *bulk.Coordinator
	flusher   *flush.Flusher
	report    report.OpenReport
}

// live is what changes while the store is open, and what parts share of it. Its place is in the DB, since lookups load
// it.
type live struct {
	closed        closedFlag
	listenerCalls listenerCalls
	finder        lookup.Finder // for lookups; commit replaces its state
	stop          stop

	// Writers change the fields from here on. Lookups load those before.
	txns      transactions
	counters  dbCounters
	snapshots lookup.Snapshots
	opened    counters.Opened

	background sync.WaitGroup
}

// closedFlag says whether a DB refuses calls. Its zero value says yes: only Open makes a DB that can be used.
type closedFlag struct{ open atomic.Bool }

// Load reports whether the DB is closed.
func (c *closedFlag) Load() bool { return !c.open.Load() }

// set closes an open DB, and reports whether it was open.
func (c *closedFlag) set() bool { return c.open.CompareAndSwap(true, false) }

// errNilContext refuses a nil context, which would be a nil-pointer panic later.
func errNilContext(method string) error {
	return errors.Newf("sievedb: %s: the context is nil; pass context.Background()", method)
}

// state returns the current read state, nil before the recovery.
func (d *DB) state() *lookup.State { return d.finder.State.Load() }

// verifyEvery is how often a store looks whether another program has taken its files away. That takes some
// microseconds.
const verifyEvery = 5 * time.Second

// cleanLoop removes files that readers released, until the store closes. It also verifies now and then.
func (d *DB) cleanLoop() {
	for d.commit.Guard("the removal of tables", func() error { d.flusher.Obsolete.Run(d.commit.Ending(), verifyEvery, d.commit.Verify); return nil }) != nil {
		continue // the removal panicked; the next ones are still tried
	}
}

// Flush writes the memtables to tables and returns when that is done. Every write
// acknowledged before is then in a table and durable, whatever its WriteOptions were. If the log has failed, and with
// that the writes have ended, they go on in a new log after a successful Flush.
func (d *DB) Flush() error {
	if err := d.guard(toWrite | toWait); err != nil {
		return err
	}
	return d.flusher.Flush()
}

// Close waits for background work, and for calls of Compact and UpgradeFilters to end, which
// they soon do. It makes all writes durable, writes the file CLOSED, and releases the
// directory. After SetReadOnly only the release is left to do. Close iterators and snapshots before: the error
// names those left open, and they return ErrClosed from then on. No table's file stays open for them: Close waits
// for reads of tables that are under way, and then closes the files. A load that was not committed is discarded,
// and the error says so, as it reports a panic that ended the writes. A second Close returns ErrClosed.
func (d *DB) Close() error {
	if err := d.guard(toWait); err != nil {
		return err
	}
	if !d.closed.set() {
		return ErrClosed
	}
	close(d.stop.closing)
	d.commit.Refuse()
	d.stop.mu.Lock()
	defer d.stop.mu.Unlock()
	var err error
	if !d.stop.done {
		err = d.endWriting(ErrClosed)
	}
	keep := func(e error) { err = errors.CombineErrors(err, e) }
	try := func(step func() error) { keep(base.Catch(d.opts.Comparer, "Close", step)) }
	for _, m := range d.state().Memtables() {
		m.Settle()
	}
	try(func() error { d.tables.Close(); return nil })
	try(func() error { d.tables.Blocks().Close(); return nil })
	try(d.endFollowing)
	try(d.dir.Close)
	d.share.Leave()
	keep(d.bulk.Discarded("closed"))
	if open := d.opened.String(); open != "" {
		keep(errors.Newf("sievedb: closed with %s", open))
	}
	return base.NoSpace(err)
}
