package db

import (
	stderrors "errors"
	"io/fs"

	"github.com/cockroachdb/errors"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/manifest"
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

// GetTo appends the value of key to dst and returns the extended slice, or dst
// and ErrNotFound. It allocates nothing when dst has room and the blocks needed
// are in the cache.
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

// latest stands for the newest visible sequence number.
const latest = ^uint64(0)

// maxAttempts bounds how often a lookup starts over because the tables that it
// was about to read were closed under it. Each time a compaction or the
// open-table cache was faster; so many times in a row means a defect.
const maxAttempts = 1000

// find returns the value of key as of seq. It is in a memtable's arena, in a block
// or in memory of the lookup's, and valid until the lookup is released.
func (d *DB) find(lookup *sstable.Lookup, key []byte, seq uint64) ([]byte, error) {
	if d.closed.Load() {
		return nil, ErrClosed
	}
	lane := manifest.OwnLane()
	counters := d.counters.lookup(lane)
	counters.gets.Add(1)
	for attempt := 0; ; attempt++ {
		value, kind, err := d.findOnce(lookup, key, seq, lane, nil)
		switch {
		case err == nil && kind == base.KindSet:
			counters.found.Add(1)
			return value, nil
		case err == nil:
			return nil, ErrNotFound
		case !tableGone(err):
			return nil, err
		case d.closed.Load():
			return nil, ErrClosed
		case attempt == maxAttempts:
			return nil, d.keptClosing(err)
		}
	}
}

// tableGone reports whether err says that a table was closed or removed between
// the loading of the read state and the reading of the table.
func tableGone(err error) bool {
	return err == sstable.ErrReaderClosed || err == errTableRemoved
}

// keptClosing is the error of a lookup that started over too often.
func (d *DB) keptClosing(err error) error {
	return errors.Wrapf(err, "sievedb: a table could not be kept open for reading; raise Options.MaxOpenFiles (%d)", d.opts.MaxOpenFiles)
}

// errTableRemoved says that a table's file was removed before it was opened.
var errTableRemoved = stderrors.New("sievedb: table removed")

// findOnce looks key up in one read state. The kind is base.KindDelete where
// there is no value. An Explanation that is not nil is told each step; nothing is
// counted then.
func (d *DB) findOnce(lookup *sstable.Lookup, key []byte, seq uint64, lane manifest.Lane, x *Explanation) ([]byte, base.Kind, error) {
	// The state first, the sequence number second: see the package comment.
	s := d.state.Load()
	if seq == latest {
		seq = d.visibleSeq.Load()
	}
	lookup.Init(key, seq)
	if value, kind, ok := d.findInMemtable(s.mem, seq, lookup, lane, x); ok {
		return value, kind, nil
	}
	for _, m := range s.imm {
		if value, kind, ok := d.findInMemtable(m, seq, lookup, lane, x); ok {
			return value, kind, nil
		}
	}
	for level := range s.version.Levels {
		l := &s.version.Levels[level]
		if len(l.Files) == 0 {
			continue
		}
		value, kind, ok, err := d.findInLevel(s, level, l, key, lookup, lane, x)
		if ok || err != nil {
			return value, kind, err
		}
	}
	return nil, base.KindDelete, nil
}

// findInMemtable asks one memtable: its filter, then the list.
func (d *DB) findInMemtable(m *memBuffer, seq uint64, lookup *sstable.Lookup, lane manifest.Lane, x *Explanation) ([]byte, base.Kind, bool) {
	filtered := m.Filtered()
	if filtered && !m.MayHold(d.memHash.of(lookup)) || m.Empty() {
		if x != nil {
			x.inMemtable(m, filtered, true, false)
		}
		return nil, 0, false
	}
	value, kind, ok := m.Get(lookup.UserKey(), seq)
	if x != nil {
		x.inMemtable(m, filtered, false, ok)
		return value, kind, ok
	}
	counters := d.counters.lookup(lane)
	counters.memtableSearches.Add(1)
	if ok {
		counters.memtableHits.Add(1)
	}
	return value, kind, ok
}

// findInLevel asks the tables of one level that may hold the key.
func (d *DB) findInLevel(s *readState, level int, l *manifest.Level, key []byte, lookup *sstable.Lookup, lane manifest.Lane, x *Explanation) ([]byte, base.Kind, bool, error) {
	if level == 0 {
		for _, f := range l.Files {
			if !f.OverlapsUser(d.cmp, key, key) {
				continue
			}
			if value, kind, ok, err := d.findInTable(s, level, f, lookup, lane, x); ok || err != nil {
				return value, kind, ok, err
			}
		}
		return nil, 0, false, nil
	}
	return d.findFrom(s, level, l, l.Find(d.cmp, key), key, lookup, lane, x)
}

// findFrom asks the tables of a level below 0 from table i on that may hold the key.
func (d *DB) findFrom(s *readState, level int, l *manifest.Level, i int, key []byte, lookup *sstable.Lookup, lane manifest.Lane, x *Explanation) ([]byte, base.Kind, bool, error) {
	for ; i < len(l.Files); i++ {
		f := l.Files[i]
		if d.cmp.Compare(key, base.UserKey(f.Smallest)) < 0 {
			break
		}
		if value, kind, ok, err := d.findInTable(s, level, f, lookup, lane, x); ok || err != nil {
			return value, kind, ok, err
		}
		// A table may end in the middle of the key's versions (LevelDB once wrote
		// such): then the older ones begin the next table.
		if d.cmp.Compare(key, base.UserKey(f.Largest)) != 0 {
			break
		}
	}
	return nil, 0, false, nil
}

// findInTable asks one table and counts what that took.
func (d *DB) findInTable(s *readState, level int, f *manifest.FileMeta, lookup *sstable.Lookup, lane manifest.Lane, x *Explanation) ([]byte, base.Kind, bool, error) {
	if x != nil {
		x.beginTable(level, f)
	}
	r, err := d.tables.get(f)
	if err != nil {
		return nil, 0, false, d.openError(s, err)
	}
	res, err := r.Get(lookup)
	if err != nil {
		return nil, 0, false, err
	}
	if x == nil {
		countLookup(lane, f.Counters, &res)
	} else {
		x.endTable(r, &res)
	}
	if !res.Found {
		return nil, 0, false, nil
	}
	_, kind := base.SplitTrailer(res.Trailer)
	return res.Value, kind, true, nil
}

// openError tells a table that was removed meanwhile from one that is missing.
func (d *DB) openError(s *readState, err error) error {
	if errors.Is(err, fs.ErrNotExist) && (d.state.Load() != s || d.closed.Load()) {
		return errTableRemoved
	}
	return err
}

// countLookup adds what a lookup did to the table's counters.
func countLookup(lane manifest.Lane, c *manifest.Counters, res *sstable.Result) {
	if res.Filter == sstable.FilterNegative {
		c.Add(lane, manifest.FilterNegatives, 1)
		if !res.IndexRead {
			return // all of it, for a whole-table filter
		}
	}
	switch {
	case res.Filter == sstable.FilterNegative:
	case res.Filter == sstable.FilterNone:
		c.Add(lane, manifest.UnfilteredReads, 1)
	case res.Found:
		c.Add(lane, manifest.FilterTruePositives, 1)
	default:
		c.Add(lane, manifest.FilterFalsePositives, 1)
	}
	if res.IndexRead {
		c.Add(lane, manifest.IndexReads, 1)
	}
	if res.BlockFromCache {
		c.Add(lane, manifest.BlocksFromCache, 1)
	}
	if res.BlockFromDisk {
		c.Add(lane, manifest.BlocksFromDisk, 1)
	}
	if res.BytesRead > 0 {
		c.Add(lane, manifest.BytesFromDisk, uint64(res.BytesRead))
	}
}
