package db

import (
	"context"

	"github.com/sievedb/sievedb/internal/compact"
	"github.com/sievedb/sievedb/internal/errors"
	"github.com/sievedb/sievedb/internal/filterplan"
	"github.com/sievedb/sievedb/internal/manifest"
	"github.com/sievedb/sievedb/internal/tables"
)

// Compact merges all tables that may contain keys from start to limit, limit excluded; nil
// means no bound. The space of deleted and shadowed entries is freed, unless a snapshot
// needs them, and every table is written with the present options. A table is merged as a
// whole, so entries outside the range are rewritten too. Entries that are written meanwhile
// may be left out. Compact returns when it is done, or when ctx is; what was merged until
// then stays merged.
//
// If start and limit are the same key, the range is empty: Compact does nothing and returns
// nil. A start after limit is refused with an error, because nothing else would reveal the
// mistake.
func (d *DB) Compact(ctx context.Context, start, limit []byte) error {
	if d == nil || d.closed.Load() {
		return ErrClosed
	}
	if ctx == nil {
		return errNilContext("Compact")
	}
	if start != nil && limit != nil {
		switch c := d.cmp.Compare(start, limit); {
		case c > 0:
			return errors.New("sievedb: Compact: start is after limit; pass the key that sorts first as start")
		case c == 0:
			return nil
		}
	}
	if err := d.Flush(); err != nil {
		return err
	}
	return d.compactor.Compact(ctx, start, limit)
}

// newCompactor returns the scheduler of the store's compactions.
func (d *DB) newCompactor() *compact.Scheduler {
	o := &d.opts
	return compact.New(compact.Options{
		Dir: d.files, Cmp: d.cmp, Cache: d.tables, Obsolete: d.obsolete, Plan: d.plan,
		NewFileNum: d.set.NewFileNum,
		NewWriter:  func(bits filterplan.Bits) *tables.Writer { return d.newTableWriter(bits) },
		Tuning:     o.tuning(), ReadPolicies: o.readPolicies(), ReadOnly: o.ReadOnly,
		Begin:  func(i compact.Info) { notify(d, o.EventListener.CompactionBegin, CompactionInfo(i)) },
		End:    func(i compact.Info) { notify(d, o.EventListener.CompactionEnd, CompactionInfo(i)) },
		Guard:  d.guard,
		Fail:   d.endWrites,
		Ended:  d.compactionEnded,
		Logger: o.Logger,
	}, (*compactionHost)(d))
}

// compactionEnded receives the result of a compaction: writers may wait for it.
func (d *DB) compactionEnded(err error) {
	d.mu.Lock()
	d.cond.Broadcast()
	d.mu.Unlock()
	d.deleter.Wake()
	d.reportBackground(err)
}

// compactionHost is the store as its compactions see it.
type compactionHost DB

func (h *compactionHost) RefVersion() *manifest.Version { return h.finder.Ref().Version }
func (h *compactionHost) OldestSnapshot() uint64        { return h.snapshots.oldest(&h.finder.VisibleSeq) }
func (h *compactionHost) Snapshots() []uint64           { return h.snapshots.all(&h.finder.VisibleSeq) }

func (h *compactionHost) Apply(edit *manifest.Edit, written []*manifest.FileMeta) error {
	return (*DB)(h).applyEdit(edit, written, nil)
}
