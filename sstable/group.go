package sstable

// An Ask is a lookup in one table, one of several that a Group does together. The table's
// Denies must have returned false; for a denied key, reads would be wasted.
type Ask struct {
	Reader *Reader
	Lookup *Lookup

	index  *index // nil if it is not in memory
	block  int    // where to begin
	held   *Block // that block, if it is in the cache; only to be touched
	shares bool   // the previous or the next ask needs that block too
}

// A Group does several lookups together. Each has the result of Reader.GetAfterFilter, at less
// cost. Prepare makes the lookups wait for memory together, instead of one after
// another. If adjacent lookups need the same data block, the first one reads it for all.
//
// A Group belongs to one goroutine. The zero Group is ready for use.
type Group struct {
	// last is the data block that was searched last, which may be in scratch's memory.
	last struct {
		index *index
		i     int
		block *Block
	}
	scratch *scratch
	touched uint64 // keeps the loads of touch
}

// Prepare finds the data blocks of all asks. It reads nothing from disk.
func (g *Group) Prepare(asks []Ask) {
	var last *Ask // the last one whose index is in memory
	for i := range asks {
		a := &asks[i]
		a.findBlock()
		if a.index == nil {
			continue
		}
		if last != nil && last.index == a.index && last.block == a.block {
			last.shares, a.shares = true, true
		}
		last = a
	}
	for i := range asks {
		g.touched += asks[i].touchBlock()
	}
}

// findBlock finds the data block, and its cached form if there is one.
func (a *Ask) findBlock() {
	r := a.Reader
	a.held, a.shares = nil, false
	if a.index = r.index.Load(); a.index == nil {
		return
	}
	a.block = a.index.find(r.cmp, a.Lookup.userKey, a.Lookup.trailer)
	if r.cache != nil && a.block < a.index.Len() {
		a.held = a.index.slots[a.block].Peek()
	}
}

// touchBlock loads the cache lines with which a search in a cached block begins: the
// restart array at its end, and an entry in its middle.
func (a *Ask) touchBlock() uint64 {
	if a.held == nil || len(a.held.data) == 0 {
		return 0
	}
	data := a.held.data
	return uint64(data[len(data)-1]) + uint64(data[len(data)/2])
}

// Get does a lookup that was prepared. The Value of its Result is valid until the Group is used again or released.
// Lookups may be in any order, but only adjacent ones share a block. A shared block counts only for the lookup that
// read it: neither BlockFromCache nor BlockFromDisk is set for the others.
func (g *Group) Get(a *Ask) (Result, error) {
	r, ix, lk := a.Reader, a.index, a.Lookup
	var res Result
	f := r.filter
	if f != nil && f.whole {
		res.Filter = FilterPassed
		f = nil
	}
	if ix == nil {
		var err error
		if ix, res.BytesRead, err = r.loadIndex(); err != nil {
			return res, err
		}
		res.IndexRead = res.BytesRead > 0
		a.block = ix.find(r.cmp, lk.userKey, lk.trailer)
	}
	// The loop of Reader.GetAfterFilter, repeated: sharing it would cost each Get another call.
	for i := a.block; i < ix.Len(); i++ {
		if f == nil || res.passes(f, lk, ix.Offset(i)) {
			done, err := g.getInBlock(a, ix, i, &res)
			if done || err != nil {
				return res, err
			}
		}
		if !ix.Continues(r.cmp, i, lk.userKey) {
			break
		}
	}
	return res, nil
}

// getInBlock is Reader.getInBlock for one of the group's lookups. It reuses the last block
// if that is the one needed. Lookups that share a block use it whole, not a slice of it.
func (g *Group) getInBlock(a *Ask, ix *index, i int, res *Result) (done bool, err error) {
	r, lk, last := a.Reader, a.Lookup, &g.last
	if last.index == ix && last.i == i {
		return r.searchWhole(last.block, ix, i, lk, res)
	}
	last.index = nil // its memory may be reused
	lk.scratch, g.scratch = g.scratch, nil
	var b *Block
	if r.cache != nil {
		b = ix.slots[i].Get()
	}
	if b != nil && b.kind == slicedKind && !a.shares && !r.cache.cache.Hot(&ix.slots[i]) {
		res.BlockFromCache = true
		done, err = r.getInSlices(b, ix, i, lk, res)
	} else if b, err = r.dataBlock(b, ix, i, lk, res); err == nil {
		last.index, last.i, last.block = ix, i, b
		done, err = r.searchWhole(b, ix, i, lk, res)
	}
	g.scratch, lk.scratch = lk.scratch, nil
	return done, err
}

// Release ends the validity of the values that the Group found and makes it the zero Group.
func (g *Group) Release() {
	if g.scratch != nil {
		g.scratch.release()
	}
	*g = Group{}
}
