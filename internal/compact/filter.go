package compact

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/errors"
	"github.com/sievedb/sievedb/internal/manifest"
)

// Tuning.Filter is called for the newest entry of each key of a merge if that is a value which
// no open snapshot sees. A snapshot that is opened later, but before the result is installed,
// could see the value as well. It reads from the tables of its own moment: see Host.BeginFilter.
//
// A dropped value becomes a tombstone with the same sequence number. Like any other tombstone,
// it stays as long as something older might be below it. A replaced value keeps its number.

// jobFilter is what the pieces of a mergeJob share for Tuning.Filter.
type jobFilter struct {
	from    uint64                                                  // no snapshot sees values from this sequence number on; MaxUint64 without Tuning.Filter
	end     func()                                                  // of Host.BeginFilter, or nil
	user    func(key, value []byte) (replacement []byte, keep bool) // Tuning.Filter
	dropped atomic.Uint64
}

// filters reports whether Tuning.Filter is called for an entry that is the newest one of its
// key.
func (m *merger) filters(kind base.Kind, seq uint64) bool {
	return seq >= m.job.filter.from && kind == base.KindSet
}

// filter calls Tuning.Filter. It returns KindDelete for a value that is dropped, or the new
// value.
func (m *merger) filter(user, value []byte) (base.Kind, []byte, error) {
	value, keep := m.job.filter.user(user, value)
	switch {
	case !keep:
		m.job.filter.dropped.Add(1)
		return base.KindDelete, nil, nil
	case len(value) > m.s.o.MaxValue:
		return 0, nil, errors.Wrapf(base.ErrTooLarge, "sievedb: Options.Compaction.Filter returned a value of %d bytes, "+
			"and at most %d (MaxValueSize) are supported; return a shorter one", len(value), m.s.o.MaxValue)
	}
	return base.KindSet, value, nil
}

// mergeFiltered is merge for a goroutine in which Tuning.Filter may be called.
func (j *mergeJob) mergeFiltered(p *mergePiece) error {
	if j.filter.user == nil {
		return j.merge(p)
	}
	return j.s.o.FilterCalls(func() error { return j.merge(p) })
}

// waitForEarlierFilters waits until the compactions that are running now have ended, if they
// call Tuning.Filter. They may have done so before the caller's last writes, or while a
// snapshot was open that the caller has closed since.
func (s *Scheduler) waitForEarlierFilters(ctx context.Context) error {
	if s.tuning.Load().Filter == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	earlier := slices.Clone(s.running)
	for slices.ContainsFunc(s.running, func(c *manifest.Compaction) bool { return slices.Contains(earlier, c) }) {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case s.closed.Load():
			return base.ErrClosed
		}
		s.cond.Wait()
	}
	return nil
}
