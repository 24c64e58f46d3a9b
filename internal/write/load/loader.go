package load

import (
	"context"
	"sync"
	"time"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/base/expiry"
	"github.com/sievedb/sievedb/internal/disk/filterplan"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/disk/tables"
)

// Host is the store that gets the load.
type Host interface {
	// Flush writes the memtables to tables.
	Flush() error
	// Lead runs f while no writer writes. The methods below are only called by f.
	Lead(f func() error) error
	// FlushLed is Flush for the leader.
	FlushLed() error
	// LastSeq returns the last sequence number assigned.
	LastSeq() uint64
	// Between runs f while no edit is written. A crash during an edit leaves its record cut off, and a
	// repair then uses all tables that the edit may have added. So none may be half-way to its name.
	Between(f func() error) error
	// Install applies an edit with the tables that were written for it, and advances the
	// last and the visible sequence number to seq. If the edit fails but may be in force,
	// it advances them too: otherwise the next opening would find later writes hidden.
	Install(edit *manifest.Edit, written []*manifest.FileMeta, seq uint64) error
}

// Compactor is what a load needs of the store's compactions; see compact.Scheduler.
type Compactor interface {
	ClearLevel0(ctx context.Context, files []*manifest.FileMeta) error
	Hold() (release func())
	Place(files []*manifest.FileMeta) []manifest.LevelFile
	Schedule()
}

// Options configure a Loader.
type Options struct {
	Cmp       *base.Comparer
	Compactor Compactor
	// Writer says where and how the tables are written. Kind and Syncs are set here.
	Writer tables.WriterOptions
	// TableSize is the size in bytes from which a new table begins.
	TableSize uint64
	// Plan gives the filters their bits per key, if these depend on the level. Policy is
	// then the policy whose bits are replaced.
	Plan   *filterplan.Planner
	Policy filter.Policy
	// Seq is the reserved sequence number, and the first one of a Bulk; see Reserve.
	Seq uint64
	// Check returns why an entry is too large, or nil.
	Check func(key, value []byte) error
	// Expiry says which values have envelopes.
	Expiry *expiry.Policy
	// InListener reports whether the caller is a function of the store's listener.
	InListener func() bool
	// Overtaken, if not nil, commits the load if the store is above its sequence number. It gets
	// the tables, under their temporary names, and they belong to it. It sets Bytes and Tables.
	Overtaken func(files []*manifest.FileMeta, info *Info) error
	// Ended is called once, when the load ends.
	Ended func()
}

// A load uses a small share of the remaining sequence numbers at most, so loads never exhaust
// them.
const shareShift = 24

// Reserve returns the sequence number for a load that begins when last is the last one assigned:
// base.LoadAhead above it, or less if few numbers remain.
func Reserve(last uint64) (uint64, error) {
	ahead := min(base.LoadAhead, (base.MaxSeq-last)>>shareShift)
	if ahead == 0 {
		return 0, errors.Newf("sievedb: too few sequence numbers for a load: %d are used, %d are the limit of the format", last, base.MaxSeq)
	}
	return last + ahead, nil
}

// Loader is a load in progress.
type Loader struct {
	Options
	host Host

	mu      sync.Mutex // only against GiveUp and calls of a listener
	out     *tables.Writer
	syncs   *tables.Syncs // of out
	ikey    []byte        // of the last entry
	sealed  []byte        // scratch for a value with its envelope
	entries uint64
	err     error // why nothing more is accepted

	bulk *Bulk // the writes in any order; nil: they are in the order of their keys
}

// New begins a load.
func New(o Options, host Host) *Loader {
	o.Writer.Kind, o.Writer.Syncs = base.FileTemp, tables.NewSyncs()
	return &Loader{Options: o, host: host, out: tables.NewWriter(o.Writer), syncs: o.Writer.Syncs}
}

// Put adds a value that expires after ttl, or not if that is 0. It gets its envelope here.
func (l *Loader) Put(key, value []byte, ttl time.Duration) error {
	sealed, err := l.Expiry.Seal(l.sealed, key, value, ttl)
	if err != nil {
		return l.fail(err)
	}
	if l.Expiry.Under(key) {
		l.sealed = sealed
	}
	return l.Add(base.KindSet, key, sealed)
}

// PutTTL is Put for a ttl that must be positive.
func (l *Loader) PutTTL(key, value []byte, ttl time.Duration) error {
	if err := expiry.CheckTTL(ttl); err != nil {
		return l.fail(err)
	}
	return l.Put(key, value, ttl)
}

// fail ends the load because of err, which it returns, unless it has ended.
func (l *Loader) fail(err error) error {
	if lockErr := l.lock(); lockErr != nil {
		return lockErr
	}
	defer l.mu.Unlock()
	if l.err == nil {
		l.endLocked(err)
	}
	return l.err
}

// Add adds an entry, whose value has its envelope. Any error ends the load: its files are removed,
// and later calls return the same error.
func (l *Loader) Add(kind base.Kind, key, value []byte) error {
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
	if err := l.Check(key, value); err != nil {
		return errors.Wrapf(err, "sievedb: load: entry %d", l.entries+1)
	}
	if l.entries > 0 {
		switch order := l.Cmp.Compare(key, base.UserKey(l.ikey)); {
		case order == 0:
			return errors.Newf("sievedb: load: entry %d has the key of the one before it; want rising keys, each once", l.entries+1)
		case order < 0:
			return errors.Newf("sievedb: load: the key of entry %d sorts before that of the one before it; want rising keys by comparer %q", l.entries+1, l.Cmp.Name)
		}
	}
	l.ikey = base.AppendInternalKey(l.ikey[:0], key, l.Seq, kind)
	if l.out.Open() && l.out.Size() >= l.TableSize {
		if err := l.endTable(); err != nil {
			return err
		}
	}
	if !l.out.Open() && l.Plan.ByLevel() {
		l.out.SetFilter(l.Plan.LoadBits(l.entries).Policies(l.Policy))
	}
	return errors.Wrap(l.out.Add(l.ikey, value), "sievedb: load: writing a table")
}

func (l *Loader) endTable() error {
	return errors.Wrap(l.out.EndTable(), "sievedb: load: writing a table")
}

// Close discards the load, unless it has ended.
func (l *Loader) Close() error {
	if err := l.lock(); err != nil {
		return err
	}
	defer l.mu.Unlock()
	if l.err == nil {
		l.endLocked(base.ErrClosed)
	}
	return nil
}

// GiveUp is Close for the store, which does not write any more. Later calls return why. It reports whether the load
// had not ended.
func (l *Loader) GiveUp(why error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return false
	}
	l.endLocked(why)
	return true
}

// lock locks l.mu, except for a call from a listener during another call, which may be waiting
// for that listener.
func (l *Loader) lock() error {
	if l.mu.TryLock() {
		return nil
	}
	if l.InListener() {
		return base.ErrInListener
	}
	l.mu.Lock()
	return nil
}

// endLocked ends the load: later calls return err. l.mu is held.
func (l *Loader) endLocked(err error) {
	l.err = err
	_ = l.syncs.Wait() // the files are durable or will be removed
	if l.bulk != nil {
		l.out.Files = nil
		l.bulk.tables.Unref() // removes them when no iterator needs them
	}
	l.out.Abandon()
	l.Ended()
}

// panickedLocked ends a load whose call panicked with value, and continues the panic.
func (l *Loader) panickedLocked(value any) {
	err := base.NewPanicError(l.Cmp, "a load", value)
	if l.err == nil {
		_ = base.Catch(l.Cmp, "a load", func() error { l.endLocked(err); return nil })
	}
	if value != nil {
		panic(value)
	}
}
