package txn

import (
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/batch"
	"github.com/sievedb/sievedb/memtable"
)

// firstIndex is the size in bytes of the first index of a transaction's writes.
const firstIndex = 8 << 10

// Writes is an index of a transaction's batch. It finds the newest write for a key. A transaction brings it up to date
// only before it reads, so one that reads first and then writes needs none. The zero value with a comparer is empty. It
// is used by one goroutine at a time, but its iterators may be used by others.
type Writes struct {
	Comparer *base.Comparer

	mem   *memtable.Memtable
	n     uint64
	bytes int // of the batch that are in the index
}

// Update adds what is new in a batch of count entries, without its header. The batch may only grow.
func (w *Writes) Update(entries []byte, count uint32) {
	if uint64(count) == w.n {
		return
	}
	r := batch.ReaderOf(entries[w.bytes:], count-uint32(w.n))
	for {
		kind, key, value, _, ok, _ := r.Next()
		if !ok {
			break
		}
		w.add(kind, key, value)
	}
	w.bytes = len(entries)
}

// add adds a write, and copies key and value.
func (w *Writes) add(kind base.Kind, key, value []byte) {
	if w.mem == nil || w.mem.Available() < memtable.EntrySize(len(key), len(value)) {
		w.grow(memtable.EntrySize(len(key), len(value)))
	}
	if !w.mem.Add(base.FirstOwnSeq+w.n, kind, key, value) {
		panic("sievedb: a transaction's index is full although room was made")
	}
	w.n++
}

// grow replaces the index by one of twice its size, with room for more bytes. Iterators keep the old one.
func (w *Writes) grow(more int) {
	old := w.mem
	if old == nil {
		w.mem = memtable.New(w.Comparer, max(firstIndex, more+memtable.Slack))
		return
	}
	w.mem = memtable.New(w.Comparer, max(2*old.Capacity(), old.Size()+more+memtable.Slack))
	var ins memtable.Inserter
	for ikey, value := range old.All() {
		seq, kind := base.SplitTrailer(base.Trailer(ikey))
		if !w.mem.AddWith(&ins, seq, kind, base.UserKey(ikey), value) {
			panic("sievedb: a transaction's index is full although room was made")
		}
	}
}

// Get returns the newest write of key. For a deletion ok is true and kind is base.KindDelete. The
// value must not be changed.
func (w *Writes) Get(key []byte) (value []byte, kind base.Kind, ok bool) {
	if w.n == 0 || w.mem.Filtered() && !w.mem.MayHold(memtable.Hash(key)) {
		return nil, 0, false
	}
	return w.mem.Get(key, base.MaxSeq)
}

// Len returns the number of writes in the index.
func (w *Writes) Len() int { return int(w.n) }

// Iter returns an iterator over the writes, nil if there are none or w is nil. They are numbered from
// base.FirstOwnSeq to last; those added later, whose numbers are above last, may appear in it.
func (w *Writes) Iter() (it *memtable.Iter, last uint64) {
	if w == nil || w.n == 0 {
		return nil, 0
	}
	return w.mem.NewIter(), base.FirstOwnSeq + w.n - 1
}
