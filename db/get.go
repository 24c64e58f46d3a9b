package db

import (
	"io/fs"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/counters"
	"github.com/sievedb/sievedb/internal/errors"
	"github.com/sievedb/sievedb/sstable"
)

// Get returns a copy of the value of key, which belongs to the caller, or
// ErrNotFound.
func (d *DB) Get(key []byte) ([]byte, error) { return d.get(key, latest) }

// get is Get as of seq.
func (d *DB) get(key []byte, seq uint64) ([]byte, error) {
	var lookup sstable.Lookup
	value, err := d.find(&lookup, key, seq)
	if err == nil {
		value = append(make([]byte, 0, len(value)), value...)
	}
	lookup.Release()
	return value, err
}

// GetTo appends the value of key to dst and returns the extended slice, or dst and
// ErrNotFound. It allocates nothing if dst has room and the blocks needed are in the cache.
func (d *DB) GetTo(dst, key []byte) ([]byte, error) { return d.getTo(dst, key, latest) }

// getTo is GetTo as of seq.
func (d *DB) getTo(dst, key []byte, seq uint64) ([]byte, error) {
	var lookup sstable.Lookup
	value, err := d.find(&lookup, key, seq)
	dst = append(dst, value...)
	lookup.Release()
	return dst, err
}

// Has reports whether key has a value.
func (d *DB) Has(key []byte) (bool, error) { return d.has(key, latest) }

// has is Has as of seq.
func (d *DB) has(key []byte, seq uint64) (bool, error) {
	var lookup sstable.Lookup
	_, err := d.find(&lookup, key, seq)
	lookup.Release()
	if err == ErrNotFound {
		return false, nil
	}
	return err == nil, err
}

// latest is the sequence number that shows the newest visible entries.
const latest = ^uint64(0)

// maxAttempts bounds how often a lookup starts over because the tables that it was about to
// read were closed. Each time a compaction or the open-table cache was faster; so many times
// in a row indicate a defect.
const maxAttempts = 1000

// find returns the value of key as of seq. The value is in a memtable's arena, in a block or
// in the lookup's memory, and is valid until the lookup is released.
func (d *DB) find(lookup *sstable.Lookup, key []byte, seq uint64) ([]byte, error) {
	if d == nil || d.closed.Load() {
		return nil, ErrClosed
	}
	c := d.lookups.Own()
	for attempt := 0; ; attempt++ {
		value, kind, err := d.findOnce(lookup, key, seq, c)
		switch {
		case err == nil && kind == base.KindSet:
			return value, nil
		case err == nil:
			return nil, ErrNotFound
		case tableGone(err) && attempt < maxAttempts && !d.closed.Load():
			continue
		}
		c.CountFailed()
		switch {
		case !tableGone(err):
			return nil, err
		case d.closed.Load():
			return nil, ErrClosed
		}
		return nil, d.keptClosing(err)
	}
}

// tableGone reports whether err says that a table was closed or removed between
// the loading of the read state and the reading of the table.
func tableGone(err error) bool {
	return err == sstable.ErrReaderClosed || err == errTableRemoved
}

// keptClosing returns the error of a lookup that started over too often.
func (d *DB) keptClosing(err error) error {
	return errors.Wrapf(err, "sievedb: a table could not be kept open for reading; raise Options.Cache.MaxOpenFiles (%d)", d.opts.Cache.MaxOpenFiles)
}

// errTableRemoved says that a table's file was removed before it was opened.
var errTableRemoved = errors.Sentinel("sievedb: table removed")

// findOnce looks key up in one read state, and counts it in c unless there is an
// error. The kind is base.KindDelete if there is no value.
func (d *DB) findOnce(lookup *sstable.Lookup, key []byte, seq uint64, c *counters.Stripe) ([]byte, base.Kind, error) {
	// The state first, the sequence number second: see the package comment.
	s := d.state.Load()
	if seq == latest {
		seq = d.visibleSeq.Load()
	}
	lookup.Init(key, seq)
	d.memHash.set(lookup)
	value, kind, ok := d.findInMemtable(s.mem, seq, lookup, c)
	for i := 0; !ok && i < len(s.imm); i++ {
		value, kind, ok = d.findInMemtable(s.imm[i], seq, lookup, c)
	}
	if !ok {
		return d.findInTables(s, lookup, c)
	}
	c.CountAnswer(0, kind)
	return value, kind, nil
}

// findInMemtable searches one memtable: its filter, then the list.
func (d *DB) findInMemtable(m *memBuffer, seq uint64, lookup *sstable.Lookup, c *counters.Stripe) ([]byte, base.Kind, bool) {
	if m.Filtered() && !m.MayHold(d.memHash.of(lookup)) || m.Empty() {
		return nil, 0, false
	}
	value, kind, ok := m.Get(lookup.UserKey(), seq)
	c.CountMemtable(ok)
	return value, kind, ok
}

// openError distinguishes a table that was removed meanwhile from one that is missing.
func (d *DB) openError(s *readState, err error) error {
	if errors.Is(err, fs.ErrNotExist) && (d.state.Load() != s || d.closed.Load()) {
		return errTableRemoved
	}
	return err
}
