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
	mu     sync.Mutex
	seqs   []uint64 // of snapshots that read the current state; ascending, with repetitions
	pinned []uint64 // of those that pin a state
	pins   int      // while above 0, new snapshots pin their state
}

// add opens a snapshot at the newest visible sequence number, which is read
// under the lock: a compaction that misses the snapshot in the list has then
// seen a visible sequence number no newer than the snapshot's.
func (l *snapshotList) add(current *lookup.Current) lookup.At {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pins > 0 {
		s, seq := current.RefAt(nil)
		l.pinned = append(l.pinned, seq)
		return lookup.At{Seq: seq, State: s}
	}
	seq := current.VisibleSeq.Load()
	l.seqs = append(l.seqs, seq)
	return lookup.At{Seq: seq}
}

// remove closes the snapshot that add opened.
func (l *snapshotList) remove(at *lookup.At) {
	if at.State != nil {
		defer at.State.Version.Unref()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	seqs := &l.seqs
	if at.State != nil {
		seqs = &l.pinned
	}
	i, _ := slices.BinarySearch(*seqs, at.Seq)
	*seqs = slices.Delete(*seqs, i, i+1)
}

// pin makes new snapshots pin the state that they read, until unpin is called. A change of the tables
// that is not of the kind that compactions make is not seen by these snapshots.
func (l *snapshotList) pin() (unpin func()) {
	add := func(n int) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.pins += n
	}
	add(+1)
	return sync.OnceFunc(func() { add(-1) })
}

// oldestUnpinned returns the oldest sequence number of the snapshots that read the current state; ok
// is false if there are none.
func (l *snapshotList) oldestUnpinned() (seq uint64, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.seqs) == 0 {
		return 0, false
	}
	return l.seqs[0], true
}

// all returns the sequence numbers that readers may use, ascending and without repetitions,
// the newest visible one last.
func (l *snapshotList) all(visible *atomic.Uint64) []uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	seqs := append(slices.Concat(l.seqs, l.pinned), visible.Load())
	if len(l.pinned) > 0 {
		slices.Sort(seqs)
	}
	return slices.Compact(seqs)
}

// oldest returns the first of what all returns.
func (l *snapshotList) oldest(visible *atomic.Uint64) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	oldest := visible.Load()
	for _, seqs := range [][]uint64{l.seqs, l.pinned} {
		if len(seqs) > 0 {
			oldest = min(oldest, seqs[0])
		}
	}
	return oldest
}

// NewSnapshot returns a snapshot of what is visible now. The caller closes it.
// On a closed, nil or zero DB every method of the snapshot returns ErrClosed.
func (d *DB) NewSnapshot() *Snapshot {
	if d == nil {
		return &Snapshot{}
	}
	s := &Snapshot{db: d, at: d.snapshots.add(&d.finder.Current)}
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
	s.db.closeSnapshot(&s.at)
	s.db.opened.Remove(s, tracking.Snapshot)
	return nil
}

// closeSnapshot releases what an open snapshot holds.
func (d *DB) closeSnapshot(at *lookup.At) {
	d.snapshots.remove(at)
	d.deleter.Wake()
}
