package db

import (
	"slices"
	"time"

	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/read/lookup"
	"github.com/sievedb/sievedb/report"
)

// Explain looks key up and reports how: which runs were consulted, what their filters answered, which blocks were read.
// It reads what Get would read and fills the caches in the same way, but counts nothing in Metrics.
func (d *DB) Explain(key []byte) (*Explanation, error) { return d.explain(key, nil) }

// explain is Explain as of a moment, nil for now.
func (d *DB) explain(key []byte, at *lookup.At) (*Explanation, error) {
	if d == nil || d.closed.Load() {
		return nil, ErrClosed
	}
	found, err := d.finder.Explain(key, at)
	if err != nil {
		return nil, err
	}
	return found.Explanation(), nil
}

// Explain is DB.Explain as of the snapshot.
func (s *Snapshot) Explain(key []byte) (*Explanation, error) {
	if s == nil || s.closed.Load() {
		return nil, ErrClosed
	}
	x, err := s.db.explain(key, &s.at)
	if s.closed.Load() {
		return nil, ErrClosed
	}
	return x, err
}

// Sequence returns the sequence number of the last write that the snapshot shows, 0 if there is none, or if the
// snapshot is closed.
func (s *Snapshot) Sequence() uint64 {
	if s == nil || s.closed.Load() {
		return 0
	}
	return s.at.Seq
}

// OpenSnapshots returns the sequence numbers of the open snapshots and transactions, ascending and without
// repetitions. Those that keep the tables of their moment, as all of a follower do, are not among them.
func (d *DB) OpenSnapshots() []uint64 {
	if d == nil || d.closed.Load() {
		return nil
	}
	return d.snapshots.Unpinned()
}

// ExplainAt is Explain as of an open snapshot, which is named by its sequence number. It fails if OpenSnapshots
// does not have the number. Values that have expired since the snapshot was opened are reported as expired.
func (d *DB) ExplainAt(key []byte, sequence uint64) (*Explanation, error) {
	if d == nil || d.closed.Load() {
		return nil, ErrClosed
	}
	x, err := d.explain(key, &lookup.At{Seq: sequence})
	if err == nil && !slices.Contains(d.OpenSnapshots(), sequence) { // a compaction may have dropped what it showed
		return nil, errors.Newf("sievedb: ExplainAt: no snapshot with the sequence number %d is open; OpenSnapshots lists them", sequence)
	}
	return x, err
}

// SlowLookups returns the slowest lookups by Get, GetTo, GetWith and Has of the last one to two minutes, at most 16,
// the slowest first. It explains a sample of them, about one in 128, as they happen, beginning with the first call and
// until no call was made for the duration record. Meanwhile all lookups together are about one percent slower. They
// count in Metrics.Lookups as usual, but not in Metrics.Latency. A closed DB has none.
func (d *DB) SlowLookups(record time.Duration) []report.SlowLookup {
	if d == nil || d.closed.Load() || d.state() == nil {
		return nil
	}
	return d.finder.Slowest(record)
}
