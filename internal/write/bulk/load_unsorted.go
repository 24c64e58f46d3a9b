package bulk

import (
	"time"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/base/expiry"
	"github.com/sievedb/sievedb/internal/disk/batch"
	"github.com/sievedb/sievedb/internal/disk/tables"
	"github.com/sievedb/sievedb/memtable"
	"github.com/sievedb/sievedb/report"
)

// Transaction is a load of writes in any order, a later one of a key replacing the earlier, which can be read before
// they are committed. They go to a memtable, and when that is full to a table of the load. Each write has a sequence
// number of its own, from that of the load on. Of a key, a table has only the newest version; an iterator that shows
// an older one keeps the memtable.
//
// So tables may overlap. The edit puts those on level 0, in the order in which they were written; to merge them
// before the commit would write each byte twice while writers may wait, and compactions do it later anyway. What is
// committed before a table was written is an ordinary batch.
//
// An iterator over the writes outlives the transaction. If there is one at the commit, the tables get second names
// instead of new ones, and the temporary ones stay until the last iterator is closed.
//
// Methods are called by one goroutine at a time. Iterators may be used by others.
type Transaction struct {
	l      *Loader
	tables *tables.Private

	mem      *memtable.Memtable // nil: nothing was written
	ins      memtable.Inserter
	shared   bool // an iterator reads mem
	size     int  // of a memtable that is written to a table
	last     uint64
	overflow uint64 // the first number that must not be used
}

// The first memtable is small, because most transactions are, and each further one is larger, up to the size
// at which it becomes a table. The entries of the smaller one are copied.
const (
	firstSize = 16 << 10 // bytes
	growth    = 8
	mostSize  = 64 << 20 // larger ones save little
)

// NewTransaction begins a Transaction, as NewLoader does. It writes a table each time that about size bytes were
// written.
func (c *Coordinator) NewTransaction(what, where string, size int) (*Transaction, error) {
	l, err := c.NewLoader(what, where)
	if err != nil {
		return nil, err
	}
	first := l.run.seq
	t := &Transaction{l: l, tables: tables.NewPrivate(c.Cache, c.Dir), size: min(size, mostSize), last: first - 1}
	// The next load begins as many numbers above this one, or slightly fewer.
	t.overflow = first + min(base.LoadAhead, (base.MaxSeq-first)>>shareShift)/2
	l.mu.Lock() // GiveUp may have come already
	defer l.mu.Unlock()
	l.tx = t
	return t, nil
}

// Put adds a value, which gets its envelope here, if its key is to have one. It copies both. An error of a file ends
// the transaction; after another one the write is not part of it.
func (t *Transaction) Put(key, value []byte) error { return t.put(key, value, 0) }

// PutTTL is Put for a value that expires after ttl, which must be positive.
func (t *Transaction) PutTTL(key, value []byte, ttl time.Duration) error {
	if err := expiry.CheckTTL(ttl); err != nil {
		return err
	}
	return t.put(key, value, ttl)
}

func (t *Transaction) put(key, value []byte, ttl time.Duration) error {
	sealed, err := t.l.seal(key, value, ttl)
	if err != nil {
		return err
	}
	return t.write(base.KindSet, key, sealed)
}

// Delete adds a deletion. Otherwise it is like Put.
func (t *Transaction) Delete(key []byte) error { return t.write(base.KindDelete, key, nil) }

func (t *Transaction) write(kind base.Kind, key, value []byte) error {
	if err := batch.CheckEntry(key, value); err != nil {
		return err
	}
	return t.l.during(func() error { return t.writeLocked(kind, key, value) })
}

func (t *Transaction) writeLocked(kind base.Kind, key, value []byte) error {
	if t.last+1 >= t.overflow {
		return errors.Newf("sievedb: a bulk transaction has %d writes, as many as are supported; commit it", t.last+1-t.l.run.seq)
	}
	need := memtable.EntrySize(len(key), len(value))
	if t.mem == nil || t.mem.Available() < need {
		if err := t.makeRoom(need); err != nil {
			return err
		}
	}
	if !t.mem.AddWith(&t.ins, t.last+1, kind, key, value) {
		panic(batch.NoRoom)
	}
	t.last++
	return nil
}

// makeRoom makes room in the memtable for an entry of need bytes. It writes a table if the memtable has its full size.
func (t *Transaction) makeRoom(need int) error {
	old, capacity := t.mem, firstSize
	if old != nil {
		capacity = min(growth*old.Capacity(), t.size)
	}
	keep := old != nil && old.Len() > 0
	var copied int // the room for entries of old, whose heights are drawn again
	if keep {
		copied = old.Size() + old.Size()>>8
	}
	if keep && (old.Capacity() >= t.size || copied+need+memtable.Slack > capacity) {
		if old.Size() >= t.size/2 || copied+need+memtable.Slack > t.size {
			if err := t.l.writeLocked(t.writeTable); err != nil {
				return err
			}
			keep, capacity = false, t.size
		} else {
			capacity = t.size
		}
	}
	t.ins.Reset()
	capacity = max(capacity, need+memtable.Slack)
	if !keep && old != nil && !t.shared && old.Capacity() == capacity&^3 { // which New rounds down
		old.Reset()
		return nil
	}
	t.mem, t.shared = memtable.New(t.l.c.Cmp, capacity), false
	t.mem.OmitFilter() // nobody asks it
	if keep {
		t.copyFrom(old)
	}
	return nil
}

// copyFrom adds the entries of a smaller memtable.
func (t *Transaction) copyFrom(old *memtable.Memtable) {
	for ikey, value := range old.All() {
		seq, kind := base.SplitTrailer(base.Trailer(ikey))
		if !t.mem.AddWith(&t.ins, seq, kind, base.UserKey(ikey), value) {
			panic(batch.NoRoom)
		}
	}
}

// writeTable writes the memtable to a table.
func (t *Transaction) writeTable() error {
	run := t.l.run
	for ikey, value := range t.newest() {
		if err := run.append(ikey, value); err != nil {
			return err
		}
	}
	n := len(run.out.Files)
	err := run.endTable()
	if len(run.out.Files) > n {
		t.tables.Add(run.out.Files[n])
	}
	return err
}

// newest returns the newest version of each key in the memtable, in the order of the keys.
func (t *Transaction) newest() func(yield func(ikey, value []byte) bool) {
	return func(yield func(ikey, value []byte) bool) {
		var last []byte
		first := true
		for ikey, value := range t.mem.All() {
			key := base.UserKey(ikey)
			if !first && t.l.c.Cmp.Compare(key, last) == 0 {
				continue
			}
			first, last = false, key // in the arena
			if !yield(ikey, value) {
				return
			}
		}
	}
}

// Spilled reports whether writes are in tables.
func (t *Transaction) Spilled() bool { return len(t.tables.Files()) > 0 }

// Commit is Commit of a load; see Loader. It is for a transaction that has tables.
func (t *Transaction) Commit() (*report.LoadInfo, error) {
	err := t.l.during(func() error {
		if t.mem == nil || t.mem.Len() == 0 {
			return nil
		}
		err := t.l.writeLocked(t.writeTable)
		t.mem = nil
		return err
	})
	if err != nil {
		return nil, err
	}
	return t.l.Commit()
}

// Close discards the transaction, unless it has ended.
func (t *Transaction) Close() error { return t.l.Close() }

// Batch adds the writes, all of which are in memory, to a batch.
func (t *Transaction) Batch(to *batch.Batch) {
	if t.mem == nil {
		return
	}
	for ikey, value := range t.newest() {
		_, kind := base.SplitTrailer(base.Trailer(ikey))
		to.Add(kind, base.UserKey(ikey), value)
	}
	to.MarkSealed()
}

// View is what a reader needs of the writes so far. Later ones do not change it.
type View struct {
	// Mem has the newest writes, with numbers from First to Last, and perhaps later ones; nil: none.
	Mem         *memtable.Memtable
	First, Last uint64
	// Runs are older. A reader that keeps them takes a reference to Tables.
	Runs   tables.PrivateRuns
	Tables *tables.Private
}

// View returns the writes so far. keep says that an iterator keeps it.
func (t *Transaction) View(keep bool) View {
	t.shared = t.shared || keep
	return View{Mem: t.mem, First: t.l.run.seq, Last: t.last, Runs: t.tables.Runs(), Tables: t.tables}
}
