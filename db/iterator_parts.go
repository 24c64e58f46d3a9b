package db

import (
	"sync"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/lookup"
	"github.com/sievedb/sievedb/internal/manifest"
	"github.com/sievedb/sievedb/internal/tables"
	"github.com/sievedb/sievedb/internal/txn"
	"github.com/sievedb/sievedb/memtable"
	"github.com/sievedb/sievedb/sstable"
)

// iterParts is the memory of an iterator, which the next iterator reuses after Close. The
// Iterator itself is not reused: a caller that keeps a closed one must not see another's keys.
// So everything that a closed iterator does not need is here.
type iterParts struct {
	state    *lookup.State
	cmp      *base.Comparer
	bytewise bool // cmp.IsBytewise, called once
	seq      uint64
	ownSeq   uint64 // the last of a transaction's own writes that is shown; 0: none
	shown    []byte // the user key shown, while the iterator is valid

	it           tables.MergingIter
	mems         []memtable.Iter
	levels       []tables.LevelIter
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

// open makes an iterator for each memtable, table of level 0 and level that may contain keys
// within the bounds. Nothing is read before the first movement. own are the writes of a
// transaction, nil if there are none.
func (p *iterParts) open(d *DB, s *lookup.State, o *IterOptions, seq uint64, own *txn.Writes) {
	p.state, p.cmp, p.bytewise, p.seq = s, d.cmp, d.cmp.IsBytewise(), seq
	p.setBounds(o)
	p.addMemtables(s, own)
	options := sstable.IterOptions{NoFillCache: o.NoFillCache, Lower: p.lower, Upper: p.upper}
	reach := reach{most: d.opts.Cache.Size / 2}
	level0 := s.Version.Levels[0].Files
	if n := len(level0) + NumLevels; cap(p.levels) < n { // elements in use must not move
		p.levels = make([]tables.LevelIter, 0, n)
	}
	add := func(level int, files []*manifest.FileMeta) {
		n := len(p.levels)
		p.levels = p.levels[:n+1]
		p.levels[n].Init(d.tables, d.cmp, files, options)
		p.levels[n].AskRanges(d.ranges.ForBounds(level, p.lower, p.upper))
		p.it.Add(&p.levels[n])
		reach.add(&s.Version.Levels[level], files)
	}
	for i, f := range level0 {
		if p.meets(d.cmp, f) {
			add(0, level0[i:i+1])
		}
	}
	for level := 1; level < NumLevels; level++ {
		if len(s.Version.Levels[level].Files) == 0 {
			continue // most levels of most stores
		}
		if files := s.Version.Within(level, p.lower, p.upper); len(files) > 0 {
			add(level, files)
			if p.lower == nil { // then the iterator begins where the level does
				p.levels[len(p.levels)-1].SetLevel(&s.Version.Levels[level])
			}
		}
	}
	if reach.bytes > reach.most {
		for i := range p.levels {
			p.levels[i].SetMostKept(d.opts.Cache.Size / keptShare)
		}
	}
	p.it.Init(d.cmp)
	p.it.SetStrict()
}

// keptShare is the part of the block cache, as stored, that a walk fills if the cache cannot
// hold everything within its bounds: the beginning of a walk is the most likely to be read
// again. To fill an empty place in the cache costs more than to read and decode the block
// from the system's cache.
const keptShare = 16

// reach is the number of bytes of tables that a walk may read. Counting stops once it exceeds
// most, because the callers only ask whether it does.
type reach struct{ bytes, most int64 }

// add counts files, which are all files of the level or some of them.
func (r *reach) add(level *manifest.Level, files []*manifest.FileMeta) {
	if len(files) == len(level.Files) {
		r.bytes += int64(level.Bytes)
		return
	}
	for i := 0; i < len(files) && r.bytes <= r.most; i++ {
		r.bytes += int64(files[i].Size)
	}
}

// meets reports whether f may contain keys within the bounds.
func (p *iterParts) meets(cmp *base.Comparer, f *manifest.FileMeta) bool {
	return f.OverlapsUser(cmp, p.lower, p.upper) &&
		(p.upper == nil || cmp.Compare(base.UserKey(f.Smallest), p.upper) < 0)
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
			p.it.Add(&p.mems[len(p.mems)-1])
		}
	}
	p.ownSeq = 0
	if own != nil && own.Len() > 0 {
		it, last := own.Iter()
		p.mems, p.ownSeq = append(p.mems, *it), last
		p.it.Add(&p.mems[0])
	}
	add(s.Mem)
	for _, m := range s.Imm {
		add(m)
	}
}

func (p *iterParts) setBounds(o *IterOptions) {
	if p.bounds == nil {
		p.bounds = make([]byte, 0, 64) // a bound may be empty, but is then not nil
	}
	p.bounds = append(append(p.bounds[:0], o.LowerBound...), o.UpperBound...)
	n := len(o.LowerBound)
	if o.LowerBound != nil {
		p.lower = p.bounds[:n:n]
	}
	if o.UpperBound != nil {
		p.upper = p.bounds[n:len(p.bounds):len(p.bounds)]
	}
}

// close closes the runs and makes p available to the next iterator.
func (p *iterParts) close() error {
	err := p.it.Close()
	clear(p.mems) // otherwise the pool would keep memtables in memory
	p.mems, p.levels = p.mems[:0], p.levels[:0]
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
