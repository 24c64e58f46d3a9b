package compact

import (
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/pick"
	"github.com/sievedb/sievedb/internal/disk/tables"
	"github.com/sievedb/sievedb/internal/disk/version"
)

// merger writes those entries of a compaction that some reader can still see. What it keeps is decided by the job's
// retention.
type merger struct {
	s      *Scheduler
	cmp    func(a, b []byte) int
	c      *pick.Compaction
	job    *mergeJob
	piece  *mergePiece
	begun  bool // it has reached the piece, after earlier entries of the first blocks
	out    *tables.Writer
	cutter *pick.OutputCutter
	below  [version.NumLevels]int
	work   int // since merger looked whether it must stop
	far    int // bytes of values read from value tables for this entry
	looks  int // how often it did

	ikey    []byte // of the previous entry, nil before the first
	stratum int    // of the previous entry; see retention
	filter  mergeFilter
	zeros   zeroSeqs
	values  mergeValues
}

// A merger looks whether it must stop after lookWork bytes. An entry counts as entryWork more bytes than it has.
const (
	lookWork  = 256 << 10
	entryWork = 128
	// maxFinishedLooks bounds what a merge does that Close waits for: a few bytes of a table can stand for very many.
	maxFinishedLooks = 16 * maxFinished / lookWork
)

// entry processes the next entry of the merged order.
func (m *merger) entry(ikey, value []byte) error {
	if m.work += len(ikey) + len(value) + entryWork; m.work >= lookWork {
		m.work = 0
		m.looks++
		if err := m.stopReason(); err != nil {
			return err
		}
	}
	newKey, err := m.follow(ikey)
	if err != nil {
		return err
	}
	user := base.UserKey(ikey)
	if m.piece.upper != nil && m.cmp(user, m.piece.upper) >= 0 {
		return errPieceEnds
	}
	if !m.begun && !m.begin(user) {
		return nil
	}
	seq, kind := base.SplitTrailer(base.Trailer(ikey))
	r := &m.job.retention
	stratum := r.stratum(seq)
	shadowed := !newKey && stratum == m.stratum
	m.stratum = stratum
	if shadowed {
		return nil
	}
	e := considered{kind: kind, seq: seq, stratum: stratum}
	if newKey && r.considers(kind, seq) {
		if e.kind, value, err = m.considerAny(kind, user, value, seq); err != nil {
			return err
		}
		if e.dropped = e.kind == base.KindDelete; e.dropped {
			m.filter.tombstone = base.AppendInternalKey(m.filter.tombstone[:0], user, seq, base.KindDelete)
			ikey = m.filter.tombstone
		}
	}
	e.covers = e.kind == base.KindDelete && stratum == 0 && m.c.HasKeyBelow(user, &m.below)
	fate := r.fate(e)
	if fate == entryDropped {
		return nil
	}
	if ikey, value, err = m.home(&e, kind, ikey, value); err != nil {
		return err
	}
	if err := m.cut(ikey, newKey); err != nil {
		return err
	}
	if fate == entryZeroed {
		return m.addOldest(user, seq, e.kind, value)
	}
	return m.out.Add(ikey, value)
}

// stopReason returns why the merge must stop, or nil.
func (m *merger) stopReason() error {
	switch {
	case m.s.state.isClosed() && (!m.job.finishes || m.looks > maxFinishedLooks):
		return base.ErrClosed
	case m.job.ctx.Err() != nil:
		return m.job.ctx.Err()
	case m.job.stopped.Load():
		return ErrStopped
	}
	return nil
}

// follow remembers the entry's key, after it has checked that the key comes after the previous one. newKey reports
// whether the user keys differ.
func (m *merger) follow(ikey []byte) (newKey bool, err error) {
	if !base.ValidInternalKey(ikey) {
		return false, base.Corruptf("table", -1, "a key of %d bytes is not an internal key", len(ikey))
	}
	order := -1 // of the previous entry and this one, by their user keys
	if m.ikey != nil {
		order = m.cmp(base.UserKey(m.ikey), base.UserKey(ikey))
	}
	if order > 0 || order == 0 && base.Trailer(m.ikey) <= base.Trailer(ikey) {
		return false, base.Corruptf("table", -1, "the keys of the tables to compact do not ascend; want ascending order: "+
			"one of %s is damaged; Check reports which", tableNames(m.c))
	}
	m.ikey = append(m.ikey[:0], ikey...)
	return order < 0, nil
}

// begin reports whether the merge has reached its piece.
func (m *merger) begin(user []byte) bool {
	m.begun = m.piece.lower == nil || m.cmp(user, m.piece.lower) >= 0
	return m.begun
}

// cut ends the open table if it should end before ikey, but never between the versions of one key.
func (m *merger) cut(ikey []byte, newKey bool) error {
	open := m.out.Open()
	cut := m.cutter.ShouldCut(ikey, open) || open && m.out.Size() >= m.c.TableSize
	if cut && newKey && open {
		return m.out.EndTable()
	}
	return nil
}
