package load

import (
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/batch"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/disk/tables"
	"github.com/sievedb/sievedb/memtable"
	"github.com/sievedb/sievedb/vfs"
)

// Bulk is a load of writes in any order, a later one of a key replacing the earlier, which can be read before
// they are committed. They go to a memtable, and when that is full to a table of the load. So tables may
// overlap. Each write has a sequence number of its own, from Options.Seq on. Of a key, a table has only the
// newest version; an iterator that shows an older one keeps the memtable.
//
// Methods are called by one goroutine at a time. Iterators may be used by others.
type Bulk struct {
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

// NewBulk makes a load, to which nothing was added, one of writes in any order. It writes a table each time
// that about size bytes were written.
func NewBulk(l *Loader, c *tables.Cache, size int) *Bulk {
	b := &Bulk{l: l, tables: tables.NewPrivate(c, l.Writer.Dir), size: min(size, mostSize), last: l.Seq - 1}
	// The next load begins as many numbers above this one, or slightly fewer.
	b.overflow = l.Seq + min(base.LoadAhead, (base.MaxSeq-l.Seq)>>shareShift)/2
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bulk = b
	return b
}

// Write adds a write; its value has its envelope. It copies both. After an error the write is not part of the
// load. An error of a file ends the load.
func (b *Bulk) Write(kind base.Kind, key, value []byte) error {
	if err := b.l.Check(key, value); err != nil {
		return err
	}
	if err := b.l.lock(); err != nil {
		return err
	}
	defer b.l.mu.Unlock()
	switch {
	case b.l.err != nil:
		return b.l.err
	case b.last+1 >= b.overflow:
		return errors.Newf("sievedb: a bulk transaction has %d writes, as many as are supported; commit it", b.last+1-b.l.Seq)
	}
	need := memtable.EntrySize(len(key), len(value))
	if b.mem == nil || b.mem.Available() < need {
		if err := b.makeRoom(need); err != nil {
			return err
		}
	}
	if !b.mem.AddWith(&b.ins, b.last+1, kind, key, value) {
		panic(batch.NoRoom)
	}
	b.last++
	return nil
}

// makeRoom makes room in the memtable for an entry of need bytes. It writes a table if the memtable has its
// full size.
func (b *Bulk) makeRoom(need int) error {
	old, capacity := b.mem, firstSize
	if old != nil {
		capacity = min(growth*old.Capacity(), b.size)
	}
	keep := old != nil && old.Len() > 0
	var copied int // the room for entries of old, whose heights are drawn again
	if keep {
		copied = old.Size() + old.Size()>>8
	}
	if keep && (old.Capacity() >= b.size || copied+need+memtable.Slack > capacity) {
		if old.Size() >= b.size/2 || copied+need+memtable.Slack > b.size {
			if err := b.spillLocked(); err != nil {
				return err
			}
			keep, capacity = false, b.size
		} else {
			capacity = b.size
		}
	}
	b.ins.Reset()
	capacity = max(capacity, need+memtable.Slack)
	if !keep && old != nil && !b.shared && old.Capacity() == capacity&^3 { // which New rounds down
		old.Reset()
		return nil
	}
	b.mem, b.shared = memtable.New(b.l.Cmp, capacity), false
	if keep {
		b.copyFrom(old)
	}
	return nil
}

// copyFrom adds the entries of a smaller memtable.
func (b *Bulk) copyFrom(old *memtable.Memtable) {
	for ikey, value := range old.All() {
		seq, kind := base.SplitTrailer(base.Trailer(ikey))
		if !b.mem.AddWith(&b.ins, seq, kind, base.UserKey(ikey), value) {
			panic(batch.NoRoom)
		}
	}
}

// spillLocked writes the memtable to a table. After an error the load has ended. l.mu is held.
func (b *Bulk) spillLocked() (err error) {
	returned := false
	defer func() {
		if !returned {
			b.l.panickedLocked(recover())
		}
	}()
	if err = b.writeTable(); err != nil {
		err = base.NoSpace(errors.Wrap(err, "sievedb: load: writing a table"))
		b.l.endLocked(err)
	}
	returned = true
	return err
}

func (b *Bulk) writeTable() error {
	out := b.l.out
	if b.l.Plan.ByLevel() {
		out.SetFilter(b.l.Plan.LoadBits(b.l.entries).Policies(b.l.Policy))
	}
	for ikey, value := range b.newest() {
		if err := out.Add(ikey, value); err != nil {
			return err
		}
		b.l.entries++
	}
	n := len(out.Files)
	err := out.EndTable()
	if len(out.Files) > n {
		b.tables.Add(out.Files[n])
	}
	return err
}

// newest returns the newest version of each key in the memtable, in the order of the keys.
func (b *Bulk) newest() func(yield func(ikey, value []byte) bool) {
	return func(yield func(ikey, value []byte) bool) {
		var last []byte
		first := true
		for ikey, value := range b.mem.All() {
			key := base.UserKey(ikey)
			if !first && b.l.Cmp.Compare(key, last) == 0 {
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
func (b *Bulk) Spilled() bool { return len(b.tables.Files()) > 0 }

// Spill writes what is in memory to a table, before Commit of the load.
func (b *Bulk) Spill() error {
	if err := b.l.lock(); err != nil {
		return err
	}
	defer b.l.mu.Unlock()
	switch {
	case b.l.err != nil:
		return b.l.err
	case b.mem == nil || b.mem.Len() == 0:
		return nil
	}
	if err := b.spillLocked(); err != nil {
		return err
	}
	b.mem = nil
	return nil
}

// Batch adds the writes, all of which are in memory, to a batch.
func (b *Bulk) Batch(to *batch.Batch) {
	if b.mem == nil {
		return
	}
	for ikey, value := range b.newest() {
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
func (b *Bulk) View(keep bool) View {
	b.shared = b.shared || keep
	return View{Mem: b.mem, First: b.l.Seq, Last: b.last, Runs: b.tables.Runs(), Tables: b.tables}
}

// publish gives the tables of a Bulk, whose files it may still need for iterators, names of a kind, durably.
// After an error no file has such a name.
func (l *Loader) publish(files []*manifest.FileMeta, kind base.FileKind) (named []*manifest.FileMeta, err error) {
	dir, own := l.Writer.Dir, l.bulk.tables
	put, shared := dir.FS.Rename, own.Shared()
	if shared {
		put = func(from, to string) error { return linkOrCopy(dir.FS, from, to) }
	} else {
		own.Release()
	}
	defer func() {
		if err == nil {
			return
		}
		for _, f := range named {
			dir.Remove(dir.File(kind, f.Num))
		}
		for _, f := range files {
			if !shared {
				dir.Remove(dir.File(base.FileTemp, f.Num)) // those that were not renamed
			}
		}
		named = nil
	}()
	for _, f := range files {
		num := l.Writer.NewFileNum()
		if err = put(dir.File(base.FileTemp, f.Num), dir.File(kind, num)); err != nil {
			return named, err
		}
		named = append(named, tables.Published(f, num))
	}
	return named, dir.FS.SyncDir(dir.Path)
}

// linkOrCopy gives a file, which is synced, a second name. File systems without links get a copy.
func linkOrCopy(fs vfs.FS, from, to string) error {
	if fs.Link(from, to) == nil {
		return nil
	}
	f, err := fs.Open(from)
	if err != nil {
		return err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return err
	}
	return vfs.Copy(fs, f, size, to)
}
