package compact

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/base/expiry"
	"github.com/sievedb/sievedb/internal/disk/pick"
)

// A merge drops values that have expired, and calls Tuning.Filter for others. It does so for the
// newest entry of each key of the merge if that is a value which no open snapshot sees. If one sees
// it, it is dropped only if it had expired for the oldest of them.
//
// A snapshot that is opened later, but before the result is installed, could see the value as
// well. If the filter of the user changes it, the snapshot reads from the tables of its own
// moment: see Host.BeginFilter. If it has expired, the snapshot hides it: the merge uses the
// time before it reads the list of snapshots, and the snapshot has a later one.
//
// A dropped value becomes a tombstone with the same sequence number. Like any other tombstone,
// it stays as long as something older might be below it. A replaced value keeps its number.

// jobFilter is what the pieces of a mergeJob share for this, besides its retention.
type jobFilter struct {
	user             func(key, value []byte) (replacement []byte, keep bool) // Tuning.Filter
	end              func()                                                  // of Host.BeginFilter, or nil
	dropped, expired atomic.Uint64
}

// beginFilter finds out which values the job may drop or replace.
func (j *mergeJob) beginFilter() {
	s, r := j.s, &j.retention
	j.filter.user = s.tuning.Load().Filter
	r.unseen, r.asks = neverUnseen, j.filter.user != nil
	if r.asks || s.o.Expiry != nil {
		r.now = s.o.Expiry.Now()
		r.hidden = s.host.OldestTime()
		r.unseen, j.filter.end = s.host.BeginFilter(r.asks)
	}
}

// mergeFilter has the scratch memory of a merger.
type mergeFilter struct {
	tombstone []byte // internal key of an entry whose value was dropped
	sealed    []byte // value with its envelope
}

// consider returns KindDelete for a value that is dropped, or the value to keep. The entry is one that
// retention.considers.
func (m *merger) consider(user, value []byte, seq uint64) (base.Kind, []byte, error) {
	r := &m.job.retention
	if !m.s.o.Expiry.Under(user) {
		if r.judge(seq, expiry.Never) == valueStays {
			return base.KindSet, value, nil
		}
		return m.callFilter(user, value, m.s.o.MaxValue)
	}
	at, ok := expiry.Decode(value)
	if !ok { // readers report it
		return base.KindSet, value, nil
	}
	switch r.judge(seq, at) {
	case valueStays:
		return base.KindSet, value, nil
	case valueExpired:
		m.job.filter.expired.Add(1)
		return base.KindDelete, nil, nil
	}
	kind, inner, err := m.callFilter(user, value[expiry.HeaderLen:], m.s.o.MaxValue-expiry.HeaderLen)
	if err != nil || kind == base.KindDelete {
		return kind, nil, err
	}
	m.filter.sealed = expiry.Append(m.filter.sealed[:0], at, inner)
	return kind, m.filter.sealed, nil
}

// callFilter calls Tuning.Filter, which may return a value of at most limit bytes.
func (m *merger) callFilter(user, value []byte, limit int) (base.Kind, []byte, error) {
	value, keep := m.job.filter.user(user, value)
	switch {
	case !keep:
		m.job.filter.dropped.Add(1)
		return base.KindDelete, nil, nil
	case len(value) > limit:
		return 0, nil, errors.Wrapf(base.ErrTooLarge, "sievedb: Options.Compaction.Filter returned a value of %d bytes, "+
			"and at most %d (MaxValueSize) are supported, %d less under Options.Expiry.Prefixes; return a shorter one",
			len(value), m.s.o.MaxValue, expiry.HeaderLen)
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

// waitForEarlierFilters waits until the compactions that are running now have ended, if they drop values. They may have
// seen the caller's last writes too early, or while a snapshot was open that the caller has closed since.
func (s *Scheduler) waitForEarlierFilters(ctx context.Context) error {
	if s.tuning.Load().Filter == nil && s.o.Expiry == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	earlier := slices.Clone(s.work.running)
	for slices.ContainsFunc(s.work.running, func(c *pick.Compaction) bool { return slices.Contains(earlier, c) }) {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case s.state.isClosed():
			return base.ErrClosed
		}
		s.cond.Wait()
	}
	return nil
}
