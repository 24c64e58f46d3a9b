package tables

import (
	"math"
	"path/filepath"
	"sync/atomic"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/internal/limit/cache"
	"github.com/sievedb/sievedb/internal/limit/prefetch"
	"github.com/sievedb/sievedb/internal/limit/share"
	"github.com/sievedb/sievedb/sstable"
	"github.com/sievedb/sievedb/vfs"
)

// CacheOptions say where tables are and how they are opened.
type CacheOptions struct {
	FS  vfs.FS
	Dir string
	// MaxOpen is the largest number of tables to keep open.
	MaxOpen int
	// Pool, if not nil, is a budget of open tables that several stores share. If a table is closed because of another
	// store, Guard is called with the closing, in a goroutine of its own, and must return although that may panic. So
	// it is with requests for tables, if Guard is set. In a Pool, it must be set.
	Pool  *cache.Pool
	Guard func(during string, f func() error) error
	// Memory, if not nil, bounds the memory of filters and indexes. If they need more, tables that were not used
	// lately are closed, but not those that iterators hold, and LeastOpen others stay.
	Memory *share.TableMemory
	// Reader applies to all tables; Name, Smallest, Largest and Memory are set here.
	Reader sstable.ReaderOptions
	// Opened, if not nil, is called after each opening of a table, without a lock, by
	// the goroutine that needed the table.
	Opened func(*version.FileMeta, sstable.FilterStatus)
	// WantSizes makes each opening record the sizes of the table's filters, which may cost a read.
	WantSizes bool
}

// Cache opens tables when they are needed and keeps at most MaxOpen of them open.
// Its methods may be called from any goroutine.
type Cache struct {
	options CacheOptions
	open    *cache.Cache[*sstable.Reader]
	memory  *memoryUse
	cost    openingCost
	closed  atomic.Bool
	readers readers
}

// openingCost counts the successful openings of tables, their reads and the bytes read.
type openingCost struct{ tables, reads, bytes atomic.Uint64 }

// Blocks returns the cache of the blocks of the tables, nil if there is none.
func (c *Cache) Blocks() *sstable.BlockCache { return c.options.Reader.Cache }

// NewCache returns a cache without open tables.
func NewCache(o CacheOptions) *Cache {
	t := &Cache{options: o}
	if t.options.Memory == nil {
		t.options.Memory = share.NewTableMemory(math.MaxInt64, 0, false)
	}
	t.memory = newMemoryUse(t)
	t.options.Reader.Memory = t.memory
	t.options.Reader.Tail, t.options.Reader.Prefetch = new(sstable.TailGuess), prefetch.New(o.guardRequests())
	t.options.Reader.Released = t.readers.forget
	if o.Pool == nil {
		t.open = cache.New(int64(o.MaxOpen), closeReader)
	} else {
		t.open = cache.NewInPool(o.Pool, int64(o.MaxOpen), nil, func(r **sstable.Reader) {
			_ = o.Guard("the closing of a table", func() error { closeReader(r); return nil })
		})
	}
	return t
}

// guardRequests returns what calls the goroutines that request tables from the system, nil without a Guard.
func (o *CacheOptions) guardRequests() func(work func()) {
	if o.Guard == nil {
		return nil
	}
	return func(work func()) {
		_ = o.Guard("the request of a table from the system", func() error { work(); return nil })
	}
}

// closeReader is called for each table that leaves the cache.
func closeReader(r **sstable.Reader) {
	(*r).DropBlocks() // the table's next reader has its own slots
	_ = (*r).Close()  // closing a file that was only read cannot lose data
}

// Policies returns the filter policies with which tables are read, in the order of their hashes in a Lookup.
func (t *Cache) Policies() []filter.Policy { return t.options.Reader.Policies }

// Get returns f's reader, which it opens if necessary. A hit is one atomic load.
func (t *Cache) Get(f *version.FileMeta) (*sstable.Reader, error) {
	if r := Of(f).reader.Get(); r != nil {
		return *r, nil
	}
	return t.load(f)
}

func (t *Cache) load(f *version.FileMeta) (*sstable.Reader, error) {
	if t.closed.Load() { // no table stays open, so callers that need one open would retry forever
		return nil, base.ErrClosed
	}
	r, err := t.open.GetOrLoad(&Of(f).reader, func() (*sstable.Reader, int64, error) {
		r, err := t.openTable(f)
		return r, 1, err
	})
	switch {
	case err != nil && t.closed.Load(): // who opened the directory since may have removed the table
		return nil, base.ErrClosed
	case err != nil:
		return nil, err
	}
	// Not within the load, whose table could be the one to close. With the reference it is not: it is the one that was
	// used least, and the caller needs it.
	if (*r).Ref() {
		t.memory.Settle()
		(*r).Unref()
	}
	if t.options.Opened != nil { // not within the load, since it may get the same table
		t.options.Opened(f, (*r).FilterStatus())
	}
	return *r, nil
}

func (t *Cache) openTable(f *version.FileMeta) (*sstable.Reader, error) {
	path := filepath.Join(t.options.Dir, f.Name())
	file, err := t.options.FS.Open(path)
	if err != nil {
		return nil, err
	}
	size, err := file.Size()
	if err == nil {
		err = CheckSize(f, size, path)
	}
	if err != nil {
		return nil, errors.CombineErrors(err, file.Close())
	}
	options := t.options.Reader
	options.Name = path
	options.Smallest, options.Largest = f.Smallest, f.Largest
	r, err := sstable.Open(file, options)
	if err != nil {
		return nil, err
	}
	cost := r.OpenCost()
	t.cost.tables.Add(1)
	t.cost.reads.Add(cost.Reads)
	t.cost.bytes.Add(cost.Bytes)
	if !t.readers.add(r) {
		_ = r.Close() // closing a file that was only read cannot lose data
		return nil, base.ErrClosed
	}
	if p, ok := r.KnownProperties(); ok {
		if f.Counts() == nil {
			f.SetCounts(countsOf(&p, nil, false))
		}
		if f.Seqs.Load() == nil {
			f.Seqs.Store(seqsOf(&p))
		}
	}
	if f.Values && Of(f).ids.Load() == nil {
		if ids, err := IDs(r, f.Num); err == nil {
			Of(f).ids.Store(&ids)
		}
	}
	if state := Of(f); t.options.WantSizes && state.sizes.Load() == nil {
		state.sizes.Store(sizesOf(r, f))
	}
	return r, nil
}

// LearnCounts sets f.Counts if it is not set, to zero counts if the table has no properties, and learns how many bytes
// of values it refers to. If they cannot be read it changes nothing.
func (t *Cache) LearnCounts(f *version.FileMeta) {
	if c := f.Counts(); c != nil && c.KnowsApart {
		return
	}
	r, err := t.Ref(f)
	if err != nil {
		return // operations that need the table report the error
	}
	defer r.Unref()
	p, _, err := r.CheckProperties()
	refs, refsErr := r.Refs()
	if err == nil {
		gain := f.Gain()
		f.SetCounts(countsOf(&p, refs, refsErr == nil))
		f.SetGain(gain)
	}
}

// LearnSeqs sets f.Seqs, the range of sequence numbers of f's entries, if it is not set. Opening a
// table reads its properties only if they are in the tail, but before a large index they are not.
func (t *Cache) LearnSeqs(f *version.FileMeta) {
	if f.Seqs.Load() != nil {
		return
	}
	r, err := t.Ref(f)
	if err != nil {
		return // operations that need the table report the error
	}
	defer r.Unref()
	p, _ := r.Properties() // without properties the range is unknown
	f.Seqs.Store(seqsOf(&p))
}

func countsOf(p *sstable.Properties, refs []base.RefSum, knowsRefs bool) *version.TableCounts {
	c := &version.TableCounts{
		KnowsApart: knowsRefs,
		Entries:    p.Entries, Tombstones: p.Deletions, LargestSeq: p.LargestSeq, Expiry: p.LargestExpiry, ExpiryKeys: p.ExpiryKeys,
	}
	if p.FilterKeys > 0 && p.FilterKeys < p.Entries {
		c.Older = p.Entries - p.FilterKeys
	}
	for _, r := range refs {
		c.Apart += r.Bytes
	}
	return c
}

// seqsOf returns the range of sequence numbers of a table with these properties.
func seqsOf(p *sstable.Properties) *version.SeqRange {
	return &version.SeqRange{
		Smallest: p.SmallestSeq, Largest: p.LargestSeq,
		Known: p.Entries > 0 && p.SmallestSeq <= p.LargestSeq && p.LargestSeq <= base.MaxSeq,
	}
}

// CheckSize compares the size of a table's file with the size in the MANIFEST. The store
// calls it for all tables when it is opened, and again for each table that is opened.
func CheckSize(f *version.FileMeta, size int64, path string) error {
	if uint64(size) == f.Size {
		return nil
	}
	err := base.Corruptf("table", -1, "the file has %d bytes; want %d, as recorded in the MANIFEST", size, f.Size)
	return base.InFile(err, path, -1)
}

// Ref returns f's reader with a reference, which keeps its file open until Unref.
func (t *Cache) Ref(f *version.FileMeta) (*sstable.Reader, error) {
	for {
		r, err := t.Get(f)
		if err != nil {
			return nil, err
		}
		if r.Ref() {
			return r, nil
		}
	}
}

// HasRoom reports whether a table can be opened without closing another.
func (t *Cache) HasRoom() bool {
	return t.open.HasRoom(1) && t.memory.part.HasRoom(t.memory.part.Bytes()/max(t.open.Count(), 1))
}

// SetMaxOpen changes the largest number of tables to keep open, and closes tables above it.
func (t *Cache) SetMaxOpen(n int) { t.open.SetCapacity(int64(n)) }

// OpenWhole opens f with its filter and its index.
func (t *Cache) OpenWhole(f *version.FileMeta) error {
	r, err := t.Ref(f)
	if err != nil {
		return err
	}
	defer r.Unref()
	_, err = r.LoadIndex()
	return err
}

// Openings returns how many tables were opened, and the number of reads and bytes for that.
func (t *Cache) Openings() (tables, reads, bytes uint64) {
	return t.cost.tables.Load(), t.cost.reads.Load(), t.cost.bytes.Load()
}

// Prefetched returns how often the system was asked to read a table as a whole, and the bytes that it had to read.
func (t *Cache) Prefetched() (tables, bytes uint64) { return t.options.Reader.Prefetch.Requested() }

// Drop permanently closes f's reader, since the table is obsolete.
func (t *Cache) Drop(f *version.FileMeta) { t.open.DropOne(&Of(f).reader) }

// Close closes the files of all tables, also of those with references, and prevents further openings. It waits
// for reads under way, but not for the references, whose owners must still drop them: what they read from then
// on is in memory, or the error is base.ErrClosed. The file of a table that is just being opened is closed at the
// end of its opening, which fails.
func (t *Cache) Close() {
	t.closed.Store(true)
	t.options.Reader.Prefetch.Close()
	t.open.Close()
	t.memory.part.Leave()
	t.readers.closeFiles()
}
