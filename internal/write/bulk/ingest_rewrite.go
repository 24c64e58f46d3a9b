package bulk

import (
	"container/heap"
	"slices"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/check"
	"github.com/sievedb/sievedb/sstable"
)

// rewrite writes the newest entries of the tables that cannot stay as they are. Tables that stay lie between the
// groups, so each group has its own run: a written table must not reach across them. If the snapshots are closed
// meanwhile because of which tables cannot stay, those that are not written yet stay after all.
func (j *ingest) rewrite() error {
	for i := 0; i < len(j.tables); {
		end := i
		for end < len(j.tables) && j.tables[end].due() {
			end++
		}
		switch err := j.rewriteGroup(j.tables[i:end]); err {
		case nil:
			i = end + 1 // the table at end is not due
		case errDrained:
			j.stay() // and go on with what is left of the group
		default:
			return err
		}
	}
	return nil
}

// stay is called when no snapshot that was open is left.
func (j *ingest) stay() {
	j.drained = nil
	for _, t := range j.tables {
		if t.seen && !t.written {
			t.rewrite, t.seen = false, false
		}
	}
}

// due reports whether the entries of t have yet to be written.
func (t *table) due() bool { return t.rewrite && !t.written }

// rewriteGroup writes tables, which are sorted and may overlap.
func (j *ingest) rewriteGroup(tables []*table) (err error) {
	if len(tables) == 0 {
		return nil
	}
	if j.seq == 0 {
		if j.seq, err = reserve("an ingest", j.lastVisible(), j.ingestAhead); err != nil {
			return err
		}
	}
	out := j.runs.add(j.newRun(j.seq, 0))
	m := merger{ingest: j, waiting: tables}
	defer m.close()
	if err = m.mergeTo(out); err == errDrained {
		out.discard()
		if j.runs = j.runs[:len(j.runs)-1]; len(j.runs) == 0 {
			j.seq = 0 // no entry has it: the store need not advance so far
		}
	}
	if err != nil {
		return err
	}
	for _, t := range tables {
		t.written = true
	}
	return out.finish()
}

// merger merges tables. It has only those open that have the present key in their range.
type merger struct {
	*ingest
	waiting []*table // sorted
	heap    cursors
	key     []byte // the present user key
	meter   check.Meter
}

// cursor is at an entry of a table.
type cursor struct {
	t  *table
	r  *sstable.Reader
	it *sstable.Iter
}

func (c *cursor) close() error {
	return errors.CombineErrors(c.it.Close(), c.r.Close())
}

// cursors is a heap: first the smallest key, then the table with precedence. The entries of one table
// are in order by themselves.
type cursors struct {
	cmp *base.Comparer
	all []*cursor
}

func (h *cursors) Len() int      { return len(h.all) }
func (h *cursors) Swap(a, b int) { h.all[a], h.all[b] = h.all[b], h.all[a] }
func (h *cursors) Push(x any)    { h.all = append(h.all, x.(*cursor)) }
func (h *cursors) Less(a, b int) bool {
	x, y := h.all[a], h.all[b]
	if c := h.cmp.Compare(base.UserKey(x.it.Key()), base.UserKey(y.it.Key())); c != 0 {
		return c < 0
	}
	return x.t.rank > y.t.rank
}

func (h *cursors) Pop() any {
	last := h.all[len(h.all)-1]
	h.all = h.all[:len(h.all)-1]
	return last
}

// mergeTo writes one entry for each key.
func (m *merger) mergeTo(out *run) error {
	m.heap.cmp = m.Cmp
	for {
		if err := m.openDue(); err != nil {
			return err
		}
		if len(m.heap.all) == 0 {
			return nil
		}
		top := m.heap.all[0]
		ikey := top.it.Key()
		_, kind := base.SplitTrailer(base.Trailer(ikey))
		m.key = append(m.key[:0], base.UserKey(ikey)...)
		if err := out.add(kind, m.key, top.it.Value()); err != nil {
			return err
		}
		if err := m.skipKey(); err != nil {
			return err
		}
	}
}

// openDue opens the tables that may have the next key.
func (m *merger) openDue() error {
	for len(m.waiting) > 0 {
		t := m.waiting[0]
		if len(m.heap.all) > 0 && m.Cmp.Compare(t.smallest(), base.UserKey(m.heap.all[0].it.Key())) > 0 {
			return nil
		}
		m.waiting = m.waiting[1:]
		r, err := m.open(t, nil, nil)
		if err != nil {
			return base.InFile(err, t.path, -1)
		}
		it, err := r.NewIter(sstable.IterOptions{NoFillCache: true, ReadAhead: readAhead})
		if err != nil {
			return errors.CombineErrors(base.InFile(err, t.path, -1), r.Close())
		}
		c := &cursor{t, r, it}
		if !it.First() {
			return errors.CombineErrors(c.lost(), c.close())
		}
		heap.Push(&m.heap, c)
	}
	return nil
}

// lost returns why a cursor has no entry although it should.
func (c *cursor) lost() error {
	err := c.it.Err()
	if err == nil {
		err = errors.New("it has lost its entries since it was checked")
	}
	return base.InFile(err, c.t.path, -1)
}

// readAhead is the number of bytes read at a time.
const readAhead = 256 << 10

// skipKey moves all cursors past the present key.
func (m *merger) skipKey() error {
	for len(m.heap.all) > 0 {
		c := m.heap.all[0]
		if m.Cmp.Compare(base.UserKey(c.it.Key()), m.key) != 0 {
			return nil
		}
		if m.meter.Due(len(c.it.Key()) + len(c.it.Value())) {
			if err := m.goOn(m.ctx, m.drained); err != nil {
				return err
			}
		}
		if c.it.Next() {
			heap.Fix(&m.heap, 0)
			continue
		}
		err := c.it.Err()
		heap.Pop(&m.heap)
		if err = errors.CombineErrors(err, c.close()); err != nil {
			return base.InFile(err, c.t.path, -1)
		}
	}
	return nil
}

// close closes what is open.
func (m *merger) close() {
	for _, c := range slices.Backward(m.heap.all) {
		_ = c.close()
	}
}
