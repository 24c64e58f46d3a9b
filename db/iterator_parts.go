package db

import (
	"sync"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/manifest"
	"github.com/sievedb/sievedb/memtable"
	"github.com/sievedb/sievedb/sstable"
)

// iterParts is the memory of an iterator. That of a closed one serves the next.
// The Iterator itself does not: who holds on to a closed one must not see another.
type iterParts struct {
	it           mergingIter
	mems         []memtable.Iter
	levels       []levelIter
	key          []byte
	value        []byte // going backward
	seekKey      []byte // scratch
	bounds       []byte // lower and upper are in it
	lower, upper []byte
}

var iterPartsPool = sync.Pool{New: func() any { return new(iterParts) }}

// mostPooled bounds each of the buffers that are kept of a closed iterator, in bytes.
const mostPooled = 64 << 10

// open makes an iterator for each memtable, table of level 0 and level that can
// hold keys within the bounds. Nothing is read before the first movement.
func (p *iterParts) open(d *DB, s *readState, o *IterOptions) {
	p.setBounds(o)
	p.addMemtables(s)
	options := sstable.IterOptions{NoFillCache: o.NoFillCache, Lower: p.lower, Upper: p.upper}
	level0 := s.version.Levels[0].Files
	if n := len(level0) + NumLevels; cap(p.levels) < n { // what is in use must not move
		p.levels = make([]levelIter, 0, n)
	}
	add := func(files []*manifest.FileMeta) {
		n := len(p.levels)
		p.levels = p.levels[:n+1]
		p.levels[n].init(d.tables, d.cmp, files, options)
		p.it.add(&p.levels[n])
	}
	for i, f := range level0 {
		if p.meets(d.cmp, f) {
			add(level0[i : i+1])
		}
	}
	for level := 1; level < NumLevels; level++ {
		files := s.version.Overlapping(level, p.lower, p.upper)
		if n := len(files); n > 0 && !p.meets(d.cmp, files[n-1]) {
			files = files[:n-1]
		}
		if len(files) > 0 {
			add(files)
		}
	}
	p.it.init(d.cmp)
}

// meets reports whether f may hold keys within the bounds.
func (p *iterParts) meets(cmp *base.Comparer, f *manifest.FileMeta) bool {
	return f.OverlapsUser(cmp, p.lower, p.upper) &&
		(p.upper == nil || cmp.Compare(base.UserKey(f.Smallest), p.upper) < 0)
}

// addMemtables adds those that hold something. What comes later is not visible to
// this iterator.
func (p *iterParts) addMemtables(s *readState) {
	if n := 1 + len(s.imm); cap(p.mems) < n {
		p.mems = make([]memtable.Iter, 0, n)
	}
	add := func(m *memBuffer) {
		if !m.Empty() {
			p.mems = append(p.mems, *m.NewIter())
			p.it.add(&p.mems[len(p.mems)-1])
		}
	}
	add(s.mem)
	for _, m := range s.imm {
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

// close closes the runs, and leaves p to the next iterator.
func (p *iterParts) close() error {
	err := p.it.Close()
	clear(p.mems) // or a memtable would live for as long as the pool likes
	p.mems, p.levels = p.mems[:0], p.levels[:0]
	p.lower, p.upper = nil, nil
	for _, b := range []*[]byte{&p.key, &p.value, &p.seekKey, &p.bounds, &p.it.sought, &p.it.turnKey} {
		if cap(*b) > mostPooled {
			*b = nil
		}
	}
	iterPartsPool.Put(p)
	return err
}
