package db

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/sievedb/sievedb/internal/lookup"
	"github.com/sievedb/sievedb/internal/tracking"
	"github.com/sievedb/sievedb/internal/txn"
)

// Snapshot is the database as it was at one moment. It is safe for concurrent use. Until it is
// closed, the entries that it shows are kept on disk.
type Snapshot struct {
	db     *DB
	at     lookup.At // the moment that it shows
	closed atomic.Bool
}

// snapshotList holds the sequence numbers of the open snapshots. A compaction reads it to know
// which shadowed versions are still visible.
type snapshotList struct {
	mu   sync.Mutex
	seqs []uint64 // ascending, with repetitions
}

// add opens a snapshot at the newest visible sequence number, which is read
// under the lock: a compaction that misses the snapshot in the list has then
// seen a visible sequence number no newer than the snapshot's.
func (l *snapshotList) add(visible *atomic.Uint64) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	seq := visible.Load()
	l.seqs = append(l.seqs, seq)
	return seq
}

func (l *snapshotList) remove(seq uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i, _ := slices.BinarySearch(l.seqs, seq)
	l.seqs = slices.Delete(l.seqs, i, i+1)
}

// all returns the sequence numbers that readers may use, ascending and without repetitions,
// the newest visible one last.
func (l *snapshotList) all(visible *atomic.Uint64) []uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Compact(append(slices.Clone(l.seqs), visible.Load()))
}

// oldest returns the first of what all returns.
func (l *snapshotList) oldest(visible *atomic.Uint64) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.seqs) > 0 {
		return l.seqs[0]
	}
	return visible.Load()
}

// NewSnapshot returns a snapshot of what is visible now. The caller closes it.
// On a closed, nil or zero DB every method of the snapshot returns ErrClosed.
func (d *DB) NewSnapshot() *Snapshot {
	if d == nil {
		return &Snapshot{}
	}
	s := &Snapshot{db: d, at: lookup.At{Seq: d.snapshots.add(&d.finder.VisibleSeq)}}
	d.opened.Add(s, tracking.Snapshot, d.opts.TrackOpen)
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
func (s *Snapshot) GetTo(dst, key []byte) ([]byte, error) {
	if s == nil || s.closed.Load() {
		return dst, ErrClosed
	}
	extended, err := s.db.getTo(dst, key, &s.at)
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

// NewIterator is DB.NewIterator as of the snapshot. The iterator can still be used when the
// snapshot is closed.
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
	s.db.snapshots.remove(s.at.Seq)
	s.db.opened.Remove(s, tracking.Snapshot)
	return nil
}
