package tables

import (
	"path/filepath"
	"sync/atomic"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/cache"
	"github.com/sievedb/sievedb/internal/errors"
	"github.com/sievedb/sievedb/internal/manifest"
	"github.com/sievedb/sievedb/sstable"
	"github.com/sievedb/sievedb/vfs"
)

// CacheOptions say where tables are and how they are opened.
type CacheOptions struct {
	FS  vfs.FS
	Dir string
	// MaxOpen is how many tables are kept open.
	MaxOpen int
	// Reader is for all tables; Name, Smallest and Largest are set for each.
	Reader sstable.ReaderOptions
	// Opened, if not nil, is called after each opening of a table, without a lock, by
	// the goroutine that needed the table.
	Opened func(*manifest.FileMeta, sstable.FilterStatus)
	// WantSizes says that the filter sizes of each opened table are wanted, which may
	// cost a read.
	WantSizes bool
}

// Cache opens tables when they are needed and keeps at most MaxOpen of them open.
// Its methods may be called from any goroutine.
type Cache struct {
	options CacheOptions
	open    *cache.Cache[*sstable.Reader]
	cost    openingCost
	closed  atomic.Bool
}

// openingCost counts the openings of tables that succeeded, and what they read.
type openingCost struct{ tables, reads, bytes atomic.Uint64 }

func NewCache(o CacheOptions) *Cache {
	o.Reader.Tail = new(sstable.TailGuess)
	return &Cache{
		options: o,
		open: cache.New(int64(o.MaxOpen), func(r **sstable.Reader) {
			(*r).DropBlocks() // the next reader of the table has slots of its own
			_ = (*r).Close()  // of a file that was only read: nothing can be lost
		}),
	}
}

// Policies returns the filter policies by which tables are read, in the order of their hashes
// in a Lookup.
func (t *Cache) Policies() []filter.Policy { return t.options.Reader.Policies }

// Get returns f's reader, opened if need be. The hit is one atomic load.
func (t *Cache) Get(f *manifest.FileMeta) (*sstable.Reader, error) {
	if r := Of(f).reader.Get(); r != nil {
		return *r, nil
	}
	return t.load(f)
}

func (t *Cache) load(f *manifest.FileMeta) (*sstable.Reader, error) {
	if t.closed.Load() { // no table stays open: callers that need one open would try for ever
		return nil, base.ErrClosed
	}
	r, err := t.open.GetOrLoad(&Of(f).reader, func() (*sstable.Reader, int64, error) {
		r, err := t.openTable(f)
		return r, 1, err
	})
	if err != nil {
		return nil, err
	}
	if t.options.Opened != nil { // here, not within the load: it may ask for the same table
		t.options.Opened(f, (*r).FilterStatus())
	}
	return *r, nil
}

func (t *Cache) openTable(f *manifest.FileMeta) (*sstable.Reader, error) {
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
	if p, ok := r.KnownProperties(); ok {
		if f.Counts.Load() == nil {
			f.Counts.Store(countsOf(&p))
		}
		if f.Seqs.Load() == nil {
			f.Seqs.Store(seqsOf(&p))
		}
	}
	if state := Of(f); t.options.WantSizes && state.sizes.Load() == nil {
		state.sizes.Store(sizesOf(r, f))
	}
	return r, nil
}

// LearnSeqs finds out which sequence numbers the entries of f have. Opening a table reads its
// properties only if they happen to be in what it reads anyway: before a large index they are not.
func (t *Cache) LearnSeqs(f *manifest.FileMeta) {
	if f.Seqs.Load() != nil {
		return
	}
	r, err := t.Ref(f)
	if err != nil {
		return // whatever needs the table fails as well
	}
	defer r.Unref()
	p, _ := r.Properties() // nothing is known of a table without, or whose cannot be read
	f.Seqs.Store(seqsOf(&p))
}

func countsOf(p *sstable.Properties) *manifest.TableCounts {
	return &manifest.TableCounts{Entries: p.Entries, Tombstones: p.Deletions, LargestSeq: p.LargestSeq}
}

// seqsOf returns which sequence numbers the entries of a table have that says so.
func seqsOf(p *sstable.Properties) *manifest.SeqRange {
	return &manifest.SeqRange{
		Smallest: p.SmallestSeq, Largest: p.LargestSeq,
		Known: p.Entries > 0 && p.SmallestSeq <= p.LargestSeq && p.LargestSeq <= base.MaxSeq,
	}
}

// CheckSize compares the size of a table's file with the MANIFEST's. Open asks
// for all tables at once, and each opening asks again.
func CheckSize(f *manifest.FileMeta, size int64, path string) error {
	if uint64(size) == f.Size {
		return nil
	}
	return base.InFile(base.Corruptf("table", -1, "the file is %d bytes long, the MANIFEST says %d", size, f.Size), path, -1)
}

// Ref returns f's reader with a reference, which keeps its file open until
// Unref.
func (t *Cache) Ref(f *manifest.FileMeta) (*sstable.Reader, error) {
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

// HasRoom reports whether a table could be opened without another one being closed.
func (t *Cache) HasRoom() bool { return t.open.HasRoom(1) }

// OpenWhole opens f with its filter and its index.
func (t *Cache) OpenWhole(f *manifest.FileMeta) error {
	r, err := t.Ref(f)
	if err != nil {
		return err
	}
	defer r.Unref()
	return r.LoadIndex()
}

// Openings returns how many tables were opened, with how many reads of how many bytes.
func (t *Cache) Openings() (tables, reads, bytes uint64) {
	return t.cost.tables.Load(), t.cost.reads.Load(), t.cost.bytes.Load()
}

// drop closes f's reader for good: the table is obsolete.
func (t *Cache) drop(f *manifest.FileMeta) { t.open.DropOne(&Of(f).reader) }

// Close closes all tables, and keeps others from being opened. What somebody has a
// reference of can be read on.
func (t *Cache) Close() {
	t.closed.Store(true)
	t.open.Close()
}
