package db

import (
	"sync/atomic"

	"github.com/sievedb/sievedb/internal/read/counters"
	"github.com/sievedb/sievedb/internal/read/lookup"
	"github.com/sievedb/sievedb/internal/write/txn"
)

// Snapshot is the database as it was at one moment. It is safe for concurrent use. Until it is
// closed, the entries that it shows are kept on disk. A snapshot that is opened while a
// compaction with Options.Compaction.Filter runs keeps the tables and memtables of its moment.
type Snapshot struct {
	db     *DB
	at     lookup.At // the moment that it shows
	closed atomic.Bool
}

// NewSnapshot returns a snapshot of what is visible now. The caller closes it.
// On a closed, nil or zero DB every method of the snapshot returns ErrClosed.
func (d *DB) NewSnapshot() *Snapshot {
	if d == nil || d.closed.Load() {
		return &Snapshot{}
	}
	s := &Snapshot{db: d, at: d.snapshots.Open(&d.finder.Current, d.scans.Expiry)}
	d.opened.Add(s, counters.Snapshot, d.opts.TrackOpen)
	return s
}

// Readers check twice whether the snapshot is closed: if it is when they have their answer, a
// compaction may have dropped the entries that they were about to read.

// Get is DB.Get as of the snapshot.
func (s *Snapshot) Get(key []byte) ([]byte, error) {
	if s == nil || s.closed.Load() {
		return nil, ErrClosed
	}
	value, err := s.db.get(key, &s.at)
	if s.closed.Load() {
		return nil, ErrClosed
	}
	return value, err
}

// GetTo is DB.GetTo as of the snapshot.
func (s *Snapshot) GetTo(dst, key []byte) ([]byte, error) { return s.GetWith(dst, key, nil) }

// GetWith is DB.GetWith as of the snapshot.
func (s *Snapshot) GetWith(dst, key []byte, o *GetOptions) ([]byte, error) {
	if s == nil || s.closed.Load() {
		return dst, ErrClosed
	}
	extended, err := s.db.getTo(dst, key, &s.at, o)
	if s.closed.Load() {
		return dst, ErrClosed
	}
	return extended, err
}

// Has is DB.Has as of the snapshot.
func (s *Snapshot) Has(key []byte) (bool, error) {
	if s == nil || s.closed.Load() {
		return false, ErrClosed
	}
	has, err := s.db.has(key, &s.at)
	if s.closed.Load() {
		return false, ErrClosed
	}
	return has, err
}

// MultiGet is DB.MultiGet as of the snapshot.
func (s *Snapshot) MultiGet(keys [][]byte) (values [][]byte, err error) {
	if s == nil || s.closed.Load() {
		return nil, ErrClosed
	}
	values, err = s.db.multiGet(keys, &s.at)
	if s.closed.Load() {
		return nil, ErrClosed
	}
	return values, err
}

// NewIterator is DB.NewIterator as of the snapshot. The iterator can still be used when the snapshot is closed.
func (s *Snapshot) NewIterator(o *IterOptions) (*Iterator, error) { return s.newIterator(o, nil) }

// newIterator is NewIterator with a transaction's own writes, which may be nil.
func (s *Snapshot) newIterator(o *IterOptions, own *txn.Writes) (*Iterator, error) {
	if s == nil || s.closed.Load() {
		return nil, ErrClosed
	}
	it, err := s.db.newIterator(o, &s.at, own)
	if err == nil && s.closed.Load() {
		_ = it.Close()
		return nil, ErrClosed
	}
	return it, err
}

// Close releases the snapshot. Reads through it that are in progress may return ErrClosed. A
// second Close returns ErrClosed.
func (s *Snapshot) Close() error {
	if s == nil || s.db == nil || !s.closed.CompareAndSwap(false, true) {
		return ErrClosed
	}
	s.db.closeSnapshot(&s.at)
	s.db.opened.Remove(s, counters.Snapshot)
	return nil
}

// closeSnapshot releases what an open snapshot holds.
func (d *DB) closeSnapshot(at *lookup.At) {
	d.snapshots.Close(at)
	d.bulk.Wake()
	d.compactor.SnapshotClosed()
}
