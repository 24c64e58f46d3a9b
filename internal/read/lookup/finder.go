package lookup

import (
	"io/fs"
	"sync/atomic"
	"time"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/base/expiry"
	"github.com/sievedb/sievedb/internal/disk/tables"
	"github.com/sievedb/sievedb/internal/read/counters"
	"github.com/sievedb/sievedb/sstable"
)

// Finder looks keys up. Its owner sets Current, and calls Init before the first lookup.
type Finder struct {
	hash   keyHash
	tables *tables.Cache
	counts *counters.Lookups
	Current
	expiry       *expiry.Policy
	closed       func() bool
	maxOpenFiles func() int
	measured     func(time.Duration)
	recorder     atomic.Pointer[recorder] // nil unless somebody asks for the slowest lookups; see recorder
}

// Options are what a Finder needs.
type Options struct {
	// Cache opens the tables of the states.
	Cache *tables.Cache
	// Expiry says which values have expired. They are hidden. Nil: nothing expires.
	Expiry *expiry.Policy
	// Closed reports whether the store was closed. It is called only after an error.
	Closed func() bool
	// MaxOpenFiles returns the limit of the cache, for the text of an error.
	MaxOpenFiles func() int
	// Measured is called with the durations of a sample of the calls of Find.
	Measured func(time.Duration)
}

// Init prepares the Finder for lookups.
func (f *Finder) Init(o Options) {
	f.tables, f.closed, f.maxOpenFiles, f.measured = o.Cache, o.Closed, o.MaxOpenFiles, o.Measured
	f.expiry, f.hash = o.Expiry, newKeyHash(o.Cache.Policies())
	f.counts = new(counters.Lookups)
}

// Totals returns the counts of all lookups.
func (f *Finder) Totals() *counters.Totals { return f.counts.Total() }

// maxAttempts bounds how often a lookup starts over because the tables that it was about to read were closed. Each time
// a compaction or the open-table cache was faster; so many times in a row indicate a defect.
const maxAttempts = 1000

// Find returns the value of key, or ErrNotFound. The value is in a memtable's arena, in a block or in the lookup's
// memory, and is valid until the lookup is released. The caller, which declares the lookup, releases it in any case.
func (f *Finder) Find(lookup *sstable.Lookup, key []byte, at *At) ([]byte, error) {
	c := f.counts.Own()
	if due := c.TakeDue(); due != 0 {
		return f.findDue(due, lookup, key, at, c)
	}
	for attempt := 0; ; attempt++ {
		value, kind, err := f.findOnce(lookup, key, at, c)
		switch {
		case err == nil && kind == base.KindSet:
			if f.expiry != nil {
				return f.open(key, value, at)
			}
			return value, nil
		case err == nil:
			return nil, base.ErrNotFound
		case tableGone(err) && attempt < maxAttempts && !f.closed():
			continue
		}
		c.CountFailed()
		return nil, f.final(err)
	}
}

// findDue is Find for a lookup that is chosen to be measured or recorded.
func (f *Finder) findDue(due uint32, lookup *sstable.Lookup, key []byte, at *At, c *counters.Stripe) ([]byte, error) {
	r := f.recorder.Load()
	if due == counters.DueRecord {
		if r == nil {
			return f.Find(lookup, key, at)
		}
		return f.findRecorded(r, lookup, key, at)
	}
	start := time.Now()
	value, err := f.Find(lookup, key, at)
	f.measured(time.Since(start))
	if r != nil && !f.isOver(r, start) {
		c.SetDueRecord()
	}
	return value, err
}

// open returns the value of key for readers, ErrNotFound if it has expired.
func (f *Finder) open(key, value []byte, at *At) ([]byte, error) {
	opened, ends, alive, err := f.expiry.OpenUntil(key, value, at.time())
	at.lowerEnds(ends)
	if err == nil && !alive {
		f.expiry.CountHidden(1)
		return nil, base.ErrNotFound
	}
	return opened, err
}

// Time returns the time at which a reader as of at reads, 0 if nothing expires. A reader that
// is created now calls it after it has its state.
func (f *Finder) Time(at *At) uint64 {
	if at != nil && at.Time != 0 {
		return at.Time
	}
	return f.expiry.Now()
}

// tableGone reports whether err says that a table was closed or removed between
// the loading of the read state and the reading of the table.
func tableGone(err error) bool {
	return err == sstable.ErrReaderClosed || err == errTableRemoved
}

// final returns the error of a lookup that does not start over after err.
func (f *Finder) final(err error) error {
	switch {
	case !tableGone(err):
		return err
	case f.closed():
		return base.ErrClosed
	}
	return errors.Wrapf(err, "sievedb: a table could not be kept open for reading; raise Options.Cache.Memory, or Options.Cache.MaxOpenFiles (%d)", f.maxOpenFiles())
}

// errTableRemoved says that a table's file was removed before it was opened.
var errTableRemoved = errors.Sentinel("sievedb: table removed")

// findOnce looks key up once, and counts it in c unless there is an error. The kind is
// base.KindDelete if there is no value.
func (f *Finder) findOnce(lookup *sstable.Lookup, key []byte, at *At, c *counters.Stripe) ([]byte, base.Kind, error) {
	s, seq := f.load(at)
	lookup.Init(key, seq)
	f.hash.set(lookup)
	value, kind, ok := f.findInMemtable(s.Mem, seq, lookup, c)
	for i := 0; !ok && i < len(s.Imm); i++ {
		value, kind, ok = f.findInMemtable(s.Imm[i], seq, lookup, c)
	}
	if !ok {
		return f.findInTables(s, lookup, c)
	}
	if counters.IsSample(c.CountAnswer(0, kind)) {
		c.SetDue()
	}
	return value, kind, nil
}

// findInMemtable searches one memtable: its filter, then the list.
func (f *Finder) findInMemtable(m *Memtable, seq uint64, lookup *sstable.Lookup, c *counters.Stripe) ([]byte, base.Kind, bool) {
	if _, ruledOut := f.askFilter(m, lookup); ruledOut {
		return nil, 0, false
	}
	value, kind, ok := m.Get(lookup.UserKey(), seq)
	c.CountMemtable(ok)
	return value, kind, ok
}

// askFilter reports whether a memtable has a filter, and whether that or its emptiness rules the key out. If it has
// none, it gets closer to having one.
func (f *Finder) askFilter(m *Memtable, lookup *sstable.Lookup) (filtered, ruledOut bool) {
	m.noteLookup()
	switch {
	case m.Filtered():
		return true, !m.MayHold(f.hash.of(lookup))
	case m.Empty():
		return false, true
	}
	m.ExtendFilter()
	return false, false
}

// openError distinguishes a table that was removed meanwhile from one that is missing.
func (f *Finder) openError(s *State, err error) error {
	if errors.Is(err, fs.ErrNotExist) && (f.closed() || f.State.Load() != s && released(s)) {
		return errTableRemoved
	}
	return err
}

// released reports whether the tables of s may have been removed: no reference to its version is
// left. Tables of a pinned state are not removed.
func released(s *State) bool {
	if !s.Version.TryRef() {
		return true
	}
	s.Version.Unref()
	return false
}
