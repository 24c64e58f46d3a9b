package version

import (
	"cmp"
	"container/heap"
	"sync"
)

// noted has the tables of a store that may need a compaction because of what they contain: those with many tombstones or
// older entries or a large gain, and those whose values expire. So the choice of a compaction need not walk over all
// others. What a table contains may become known only when it is opened; see SetCounts.
type noted struct {
	mu       sync.Mutex // no other lock is acquired under it
	heavy    map[*FileMeta]struct{}
	expiring expiryHeap
}

// add adds a table of a version if c, what it contains, is worth noting. A reader may learn it when no
// version has the table any more.
func (n *noted) add(f *FileMeta, c *TableCounts) {
	heavy, expiry := c.Heavy(), uint64(0)
	if c != nil {
		expiry = c.Expiry
		if c.gain != nil {
			heavy = heavy || c.gain.All*FreedCost >= f.Holds()
			expiry = cmp.Or(c.gain.Stale, expiry)
		}
	}
	if f.Values || !heavy && expiry == 0 {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if !f.InVersion() { // forget was called, or is about to be
		return
	}
	if heavy {
		if n.heavy == nil {
			n.heavy = map[*FileMeta]struct{}{}
		}
		n.heavy[f] = struct{}{}
	}
	if expiry > 0 {
		n.expiring.add(f, expiry)
	}
}

// forget removes tables that no version contains any more.
func (n *noted) forget(files []LevelFile) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.heavy)+len(n.expiring.tables) == 0 {
		return
	}
	for _, f := range files {
		delete(n.heavy, f.File)
		n.expiring.remove(f.File)
	}
}

// Heavy returns the tables that are noted because a merge may free much of them, in no order.
func (v *Version) Heavy() []LevelFile {
	n := &v.owner.noted
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.heavy) == 0 {
		return nil
	}
	files := make([]LevelFile, 0, len(n.heavy))
	for f := range n.heavy {
		if level, ok := v.LevelOf(f); ok {
			files = append(files, LevelFile{level, f})
		}
	}
	return files
}

// Expiring returns the tables of which half or the last value expires at or before limit, in no order.
func (v *Version) Expiring(limit uint64) (files []LevelFile) {
	n := &v.owner.noted
	n.mu.Lock()
	defer n.mu.Unlock()
	n.expiring.walk(0, limit, func(f *FileMeta) {
		if level, ok := v.LevelOf(f); ok {
			files = append(files, LevelFile{level, f})
		}
	})
	return files
}

// note adds files that enter the version, now or when it becomes known what they contain.
func (v *Version) note(added []rosterEntry) {
	for _, e := range added {
		e.file.noted.Store(&v.owner.noted) // a table is in versions of one owner only
		v.owner.noted.add(e.file, e.file.Counts())
	}
}

// expiryHeap has tables with the earliest expiry first.
type expiryHeap struct {
	tables []expiringTable
	index  map[*FileMeta]int // in tables
}

type expiringTable struct {
	expiry uint64
	file   *FileMeta
}

func (h *expiryHeap) add(f *FileMeta, expiry uint64) {
	if i, ok := h.index[f]; ok {
		h.tables[i].expiry = expiry
		heap.Fix(h, i)
		return
	}
	heap.Push(h, expiringTable{expiry, f})
}

func (h *expiryHeap) remove(f *FileMeta) {
	if i, ok := h.index[f]; ok {
		heap.Remove(h, i)
	}
}

// walk calls fn for the tables from index i down whose values expire at or before limit.
func (h *expiryHeap) walk(i int, limit uint64, fn func(*FileMeta)) {
	if i < len(h.tables) && h.tables[i].expiry <= limit {
		fn(h.tables[i].file)
		h.walk(2*i+1, limit, fn)
		h.walk(2*i+2, limit, fn)
	}
}

// The methods of heap.Interface.

func (h *expiryHeap) Len() int           { return len(h.tables) }
func (h *expiryHeap) Less(i, j int) bool { return h.tables[i].expiry < h.tables[j].expiry }

func (h *expiryHeap) Swap(i, j int) {
	h.tables[i], h.tables[j] = h.tables[j], h.tables[i]
	h.index[h.tables[i].file], h.index[h.tables[j].file] = i, j
}

func (h *expiryHeap) Push(x any) {
	t := x.(expiringTable)
	if h.index == nil {
		h.index = map[*FileMeta]int{}
	}
	h.index[t.file] = len(h.tables)
	h.tables = append(h.tables, t)
}

func (h *expiryHeap) Pop() any {
	last := len(h.tables) - 1
	t := h.tables[last]
	h.tables[last] = expiringTable{}
	h.tables = h.tables[:last]
	delete(h.index, t.file)
	return t
}
