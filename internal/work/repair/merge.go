package repair

import (
	"container/heap"
	"slices"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/tables"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/sstable"
)

// construct places every run so that lookups, which stop at the first level that has a key, find its newest version.
//
// If no table has a level, the runs form groups whose key ranges do not overlap. A group of one run goes to the last
// level unchanged; the runs of a larger group are merged to new tables there. If some tables have their levels, the
// other runs are merged. An entry of them goes to level 0 if it is newer than all entries of the placed tables for its
// key, and is dropped otherwise. No placed table is rewritten.
func (r *Repairer) construct(p *plan) error {
	if len(p.placed) > 0 {
		return r.layOnTop(p)
	}
	size := r.tableSize()
	for _, group := range r.groups(p.unplaced) {
		if len(group) == 1 && r.adoptable(p, group[0]) {
			p.adopt(group[0], version.NumLevels-1)
			continue
		}
		runs, err := r.merge(group, size, nil)
		if err != nil {
			return err
		}
		p.replace(group, runs, version.NumLevels-1)
	}
	return nil
}

// tableSize returns the size in bytes at which a new table ends.
func (r *Repairer) tableSize() uint64 {
	if r.opts.TableSize > 0 {
		return r.opts.TableSize
	}
	var all uint64
	for _, t := range r.tables {
		all += uint64(t.Size)
	}
	return version.GrownTableSize(all, version.MaxTableSize)
}

// adoptable reports whether the run can become a table of the result unchanged.
func (r *Repairer) adoptable(p *plan, u *run) bool {
	if u.table == nil {
		return true
	}
	if !u.table.canonical() || u.table.Kind == base.FileValues {
		return false
	}
	// A table of LevelDB before 1.14 and one of today may have the same number.
	return !slices.ContainsFunc(p.placed, func(f version.LevelFile) bool { return f.File.Num == u.table.Num })
}

// adopt places a run unchanged.
func (p *plan) adopt(u *run, level int) {
	if u.table != nil {
		u.table.line.Level = level
	} else {
		p.made = append(p.made, u)
	}
	p.placed = append(p.placed, version.LevelFile{Level: level, File: u.meta})
}

// replace places runs that were made from others.
func (p *plan) replace(old, runs []*run, level int) {
	for _, u := range old {
		if u.table != nil {
			u.table.line.Fate = rewritten
			p.moves = append(p.moves, u.table.line)
		}
	}
	for _, u := range runs {
		p.adopt(u, level)
	}
}

// layOnTop places the entries of the unplaced runs that are newer than those of the placed tables.
func (r *Repairer) layOnTop(p *plan) error {
	if len(p.unplaced) == 0 {
		return nil
	}
	below, err := r.newPlacedTables(p.placed)
	if err != nil {
		return err
	}
	defer below.close()
	newest := newestOf{cmp: r.cmp, find: below.newest}
	keep := func(ikey []byte, from uint64) (bool, error) { return newest.isBelow(r, ikey, from) }
	// The tables are large, and so few, because each one in level 0 slows lookups until compaction.
	size := r.tableSize()
	for _, u := range p.unplaced {
		size = max(size, u.meta.Size/2)
	}
	runs, err := r.merge(p.unplaced, size, keep)
	if err != nil {
		return err
	}
	p.replace(p.unplaced, runs, 0)
	return nil
}

// placedTables looks keys up in the placed tables.
type placedTables struct {
	version *version.Version
	cmp     *base.Comparer
	blocks  *sstable.BlockCache
	tables  *tables.Cache
}

func (r *Repairer) newPlacedTables(placed []version.LevelFile) (*placedTables, error) {
	v, err := version.New(r.cmp, &version.Owner{NewHandle: tables.NewHandle}).Apply(version.Change{Added: placed})
	if err != nil {
		return nil, err
	}
	blocks := sstable.NewBlockCache(r.opts.BlockCacheSize)
	cache := r.opts.Cache
	cache.Reader.Cache = blocks
	tables := tables.NewCache(cache)
	return &placedTables{version: v, cmp: r.cmp, blocks: blocks, tables: tables}, nil
}

func (t *placedTables) close() {
	t.tables.Close()
	t.blocks.Close()
}

// newest returns the greatest sequence number among the versions of key. It searches all levels,
// because the order of levels is not reliable.
func (t *placedTables) newest(key []byte) (v newestVersion, err error) {
	var lookup sstable.Lookup
	defer lookup.Release()
	lookup.Init(key, base.MaxSeq)
	for level := range t.version.Levels {
		for _, f := range t.version.Overlapping(level, key, key) {
			r, err := t.tables.Ref(f)
			if err != nil {
				return v, err
			}
			res, err := r.Get(&lookup)
			r.Unref()
			if err != nil {
				return v, err
			}
			if res.Found {
				seq, _ := base.SplitTrailer(res.Trailer)
				v.lastLevel = !v.found && level == version.NumLevels-1
				v.seq, v.found = max(v.seq, seq), true
			}
		}
	}
	return v, nil
}

// groups sorts runs by key and divides them into groups whose ranges of user keys do not overlap.
func (r *Repairer) groups(runs []*run) [][]*run {
	r.sortRuns(runs)
	var groups [][]*run
	start := 0
	var end []byte
	for i, u := range runs {
		if i > start && r.cmp.Compare(base.UserKey(u.meta.Smallest), end) > 0 {
			groups = append(groups, runs[start:i:i])
			start = i
		}
		if largest := base.UserKey(u.meta.Largest); i == start || r.cmp.Compare(largest, end) > 0 {
			end = largest
		}
	}
	if start < len(runs) {
		groups = append(groups, runs[start:])
	}
	return groups
}

func (r *Repairer) sortRuns(runs []*run) {
	slices.SortStableFunc(runs, func(a, b *run) int {
		return base.CompareInternal(r.cmp, a.meta.Smallest, b.meta.Smallest)
	})
}

// FanIn is how many chains are merged at the same time. Each chain has one open table and keeps its
// index and readAhead bytes in memory.
const (
	FanIn     = 64
	readAhead = 256 << 10
)

// merge writes the entries of runs to new runs that do not overlap, and discards those of the old runs
// that the repair made. If too many overlap for one merge, some are merged first.
func (r *Repairer) merge(runs []*run, targetSize uint64, keep keepFunc) ([]*run, error) {
	chains := r.chains(runs)
	for len(chains) > r.maxFanIn {
		some, err := r.mergeChains(chains[:r.maxFanIn], max(targetSize, 32<<20), nil)
		if err != nil {
			return nil, err
		}
		chains = append(chains[r.maxFanIn:], some)
	}
	return r.mergeChains(chains, targetSize, keep)
}

func (r *Repairer) mergeChains(chains [][]*run, targetSize uint64, keep keepFunc) ([]*run, error) {
	it := r.newMergingIter(chains, true)
	runs, err := r.writeRuns(it, targetSize, keep)
	if cerr := it.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return nil, err
	}
	var from uint64
	for _, c := range chains {
		for _, u := range c {
			from = max(from, u.from)
		}
		r.discard(c)
	}
	for _, u := range runs {
		u.from = from
	}
	return runs, nil
}

// chains divides runs into as few lists as possible, each of runs that follow one another without
// overlap. Their number is the maximum number of ranges that overlap at one key.
func (r *Repairer) chains(runs []*run) [][]*run {
	r.sortRuns(runs)
	h := chainHeap{cmp: r.cmp}
	for _, u := range runs {
		if len(h.chains) > 0 && base.CompareInternal(r.cmp, h.end(0), u.meta.Smallest) < 0 {
			h.chains[0] = append(h.chains[0], u)
			heap.Fix(&h, 0)
		} else {
			heap.Push(&h, []*run{u})
		}
	}
	return h.chains
}

// chainHeap has the chain that ends first on top.
type chainHeap struct {
	cmp    *base.Comparer
	chains [][]*run
}

func (h *chainHeap) end(i int) []byte {
	c := h.chains[i]
	return c[len(c)-1].meta.Largest
}

func (h *chainHeap) Len() int           { return len(h.chains) }
func (h *chainHeap) Less(i, j int) bool { return base.CompareInternal(h.cmp, h.end(i), h.end(j)) < 0 }
func (h *chainHeap) Swap(i, j int)      { h.chains[i], h.chains[j] = h.chains[j], h.chains[i] }
func (h *chainHeap) Push(c any)         { h.chains = append(h.chains, c.([]*run)) }
func (h *chainHeap) Pop() any {
	last := h.chains[len(h.chains)-1]
	h.chains = h.chains[:len(h.chains)-1]
	return last
}

// chainIter walks runs that follow one another, forward only, with one open table at a time.
// Valid, Key and Value are those of the open table.
type chainIter struct {
	base.Iterator // of the open table; never nil
	r             *Repairer
	runs          []*run
	home          bool // entries that refer to values have them, or are left out
	next          int  // the run to open next
	reader        *sstable.Reader
	err           error
}

func (r *Repairer) newChainIter(runs []*run) *chainIter {
	return &chainIter{Iterator: tables.NewMergingIter(r.cmp, nil), r: r, runs: runs}
}

// newMergingIter returns an iterator over the entries of all chains; home is as in chainIter.
func (r *Repairer) newMergingIter(chains [][]*run, home bool) *tables.MergingIter {
	children := make([]base.Iterator, len(chains))
	for i, c := range chains {
		child := r.newChainIter(c)
		child.home = home
		children[i] = child
	}
	return tables.NewMergingIter(r.cmp, children)
}

// present returns the run of the current entry.
func (c *chainIter) present() *run { return c.runs[c.next-1] }

func (c *chainIter) First() bool {
	c.closeTable()
	c.next = 0
	return c.forward(false)
}

func (c *chainIter) Next() bool { return c.forward(c.Iterator.Next()) }

// forward returns ok, or moves to the first entry of a later table.
func (c *chainIter) forward(ok bool) bool {
	for !ok {
		c.closeTable()
		if c.err != nil || c.next == len(c.runs) {
			return false
		}
		c.err = c.open(c.runs[c.next])
		c.next++
		ok = c.err == nil && c.Iterator.First()
	}
	return true
}

func (c *chainIter) open(u *run) error {
	f, err := c.r.fs.Open(u.path)
	if err != nil {
		return err
	}
	reader, err := sstable.Open(f, sstable.ReaderOptions{Comparer: c.r.cmp, Name: u.path})
	if err != nil {
		return err
	}
	it, err := reader.NewIter(sstable.IterOptions{ReadAhead: readAhead})
	if err != nil {
		_ = reader.Close() // the first error is the cause
		return err
	}
	c.Iterator, c.reader = it, reader
	if c.home {
		c.Iterator = &homeIter{Iterator: it, r: c.r}
	}
	return nil
}

// closeTable closes the table and replaces its iterator with one without entries.
func (c *chainIter) closeTable() {
	err := c.Iterator.Close()
	if c.reader != nil {
		if cerr := c.reader.Close(); err == nil {
			err = cerr
		}
		c.reader = nil
	}
	if c.err == nil {
		c.err = err
	}
	c.Iterator = tables.NewMergingIter(c.r.cmp, nil)
}

func (c *chainIter) Err() error {
	if c.err == nil {
		return c.Iterator.Err()
	}
	return c.err
}

func (c *chainIter) Close() error {
	c.closeTable()
	return c.err
}
