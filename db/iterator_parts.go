package db

import (
	"sync"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/expiry"
	"github.com/sievedb/sievedb/internal/keyspace"
	"github.com/sievedb/sievedb/internal/lookup"
	"github.com/sievedb/sievedb/internal/tables"
	"github.com/sievedb/sievedb/internal/txn"
	"github.com/sievedb/sievedb/memtable"
)

// iterParts is the memory of an iterator, which the next iterator reuses after Close. The
// Iterator itself is not reused: a caller that keeps a closed one must not see another's keys.
// So everything that a closed iterator does not need is here.
type iterParts struct {
	state    *lookup.State
	cmp      *base.Comparer
	bytewise bool // cmp.IsBytewise, called once
	noFill   bool // IterOptions.NoFillCache
	keysOnly bool // IterOptions.KeysOnly
	seq      uint64
	ownSeq   uint64 // the last of a transaction's own writes that is shown; 0: none
	shown    []byte // the user key shown, while the iterator is valid

	expiry *expiry.Policy // nil: nothing expires
	now    uint64         // what has expired by then is hidden
	own    bool           // the value is a transaction's own write

	it           tables.MergingIter
	mems         []memtable.Iter
	runs         tables.Runs
	key          []byte
	value        []byte // going backward; in a block or a memtable, or a copy in valueBuf
	valueBuf     []byte
	seekKey      []byte // scratch
	bounds       []byte // lower and upper are in it
	lower, upper []byte
}

var iterPartsPool = sync.Pool{New: func() any { return new(iterParts) }}

// mostPooled bounds each buffer that is kept of a closed iterator, in bytes.
const mostPooled = 64 << 10

// open makes p show s as of seq. own are the writes of a transaction, nil if there are none.
func (p *iterParts) open(d *DB, s *lookup.State, o *IterOptions, seq uint64, own *txn.Writes) {
	p.state, p.cmp, p.bytewise, p.seq = s, d.cmp, d.cmp.IsBytewise(), seq
	p.noFill, p.keysOnly = o.NoFillCache, o.KeysOnly
	p.bounds, p.lower, p.upper = keyspace.CopyBounds(p.bounds, nil, o.LowerBound, o.UpperBound)
	p.addMemtables(s, own)
	p.openRuns(d)
}

// openLike makes p show the moment of q. o are its options, which leave out the prefix; nil means
// those of q.
func (p *iterParts) openLike(d *DB, q *iterParts, o *IterOptions, prefix []byte) {
	p.state, p.cmp, p.bytewise, p.seq, p.ownSeq = q.state, q.cmp, q.bytewise, q.seq, q.ownSeq
	p.mems, p.expiry, p.now = append(p.mems, q.mems...), q.expiry, q.now
	if o != nil {
		p.noFill, p.keysOnly = o.NoFillCache, o.KeysOnly
		p.bounds, p.lower, p.upper = keyspace.CopyBounds(p.bounds, prefix, o.LowerBound, o.UpperBound)
	} else {
		p.noFill, p.keysOnly = q.noFill, q.keysOnly
		p.bounds, p.lower, p.upper = keyspace.CopyBounds(p.bounds, nil, q.lower, q.upper)
	}
	p.openRuns(d)
}

// reopen replaces the bounds, which may be in memory of the runs. After an error p can only be
// closed.
func (p *iterParts) reopen(d *DB, prefix, lower, upper []byte) error {
	p.bounds, p.lower, p.upper = keyspace.CopyBounds(p.bounds, prefix, lower, upper)
	err := p.it.Close()
	p.runs.Clear()
	p.value = nil
	p.openRuns(d)
	return err
}

// openRuns merges the memtables with the tables that may contain keys within the bounds. Nothing is
// read before the first movement.
func (p *iterParts) openRuns(d *DB) {
	for i := range p.mems {
		p.it.Add(&p.mems[i])
	}
	p.runs.Add(&p.it, d.tables, p.state.Version, &tables.RunOptions{
		Lower: p.lower, Upper: p.upper, NoFillCache: p.noFill, KeysOnly: p.keysOnly, CacheSize: d.options().Cache.Size, Ranges: d.ranges,
	})
	p.it.Init(d.cmp)
	p.it.SetStrict()
}

// addMemtables adds the memtables that have entries, and a transaction's own writes before them.
// Later entries are not visible to this iterator.
func (p *iterParts) addMemtables(s *lookup.State, own *txn.Writes) {
	if n := 2 + len(s.Imm); cap(p.mems) < n {
		p.mems = make([]memtable.Iter, 0, n)
	}
	add := func(m *lookup.Memtable) {
		if !m.Empty() {
			p.mems = append(p.mems, *m.NewIter())
		}
	}
	p.ownSeq = 0
	if own != nil && own.Len() > 0 {
		it, last := own.Iter()
		p.mems, p.ownSeq = append(p.mems, *it), last
	}
	add(s.Mem)
	for _, m := range s.Imm {
		add(m)
	}
}

// close closes the runs and makes p available to the next iterator.
func (p *iterParts) close() error {
	err := p.it.Close()
	clear(p.mems) // otherwise the pool would keep memtables in memory
	p.runs.Clear()
	p.mems = p.mems[:0]
	p.state, p.shown, p.value, p.lower, p.upper = nil, nil, nil, nil, nil
	for _, b := range []*[]byte{&p.key, &p.valueBuf, &p.seekKey, &p.bounds} {
		if cap(*b) > mostPooled {
			*b = nil
		}
	}
	p.it.Trim(mostPooled)
	iterPartsPool.Put(p)
	return err
}
