package db

import (
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/errors"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/cache"
	"github.com/sievedb/sievedb/internal/manifest"
	"github.com/sievedb/sievedb/internal/vfs"
	"github.com/sievedb/sievedb/sstable"
)

// tableCache opens tables when they are needed and keeps at most MaxOpenFiles of
// them open.
type tableCache struct {
	fs      vfs.FS
	dir     string
	options sstable.ReaderOptions // but for the name
	open    *cache.Cache[*sstable.Reader]
	cost    openingCost
	// opened is told of each table opened, with no lock held.
	opened func(*manifest.FileMeta, sstable.FilterStatus)
	// figures says that each table's FilterFigures are wanted.
	figures bool
	closed  atomic.Bool
}

// openingCost counts the openings of tables that came to something, and what they read.
type openingCost struct{ tables, reads, bytes atomic.Uint64 }

func newTableCache(d *DB) *tableCache {
	return &tableCache{
		fs: d.fs, dir: d.dir, opened: d.tellFilter, figures: d.opts.hasFilterBudget(),
		options: sstable.ReaderOptions{
			Comparer: d.cmp, Policies: d.opts.readPolicies(), RangePolicies: d.opts.RangeFilters, Cache: d.blockCache, ChargeCache: d.opts.ChargeTablesToBlockCache,
			Tail: new(sstable.TailGuess),
		},
		open: cache.New(int64(d.opts.MaxOpenFiles), func(r **sstable.Reader) {
			(*r).DropBlocks() // whoever opens the table again has slots of its own
			_ = (*r).Close()  // of a file that was only read: nothing can be lost
		}),
	}
}

// get returns f's reader, opened if need be. The hit is one atomic load.
func (t *tableCache) get(f *manifest.FileMeta) (*sstable.Reader, error) {
	if r := tableOf(f).reader.Get(); r != nil {
		return *r, nil
	}
	return t.load(f)
}

func (t *tableCache) load(f *manifest.FileMeta) (*sstable.Reader, error) {
	if t.closed.Load() { // no table stays open: whoever wants one to would try for ever
		return nil, ErrClosed
	}
	r, err := t.open.GetOrLoad(&tableOf(f).reader, func() (*sstable.Reader, int64, error) {
		r, err := t.openTable(f)
		return r, 1, err
	})
	if err != nil {
		return nil, err
	}
	// Here, not within the load: the listener may ask for the same table.
	t.opened(f, (*r).FilterStatus())
	return *r, nil
}

func (t *tableCache) openTable(f *manifest.FileMeta) (*sstable.Reader, error) {
	path := filepath.Join(t.dir, f.Name())
	file, err := t.fs.Open(path)
	if err != nil {
		return nil, err
	}
	size, err := file.Size()
	if err == nil {
		err = checkTableSize(f, size, path)
	}
	if err != nil {
		return nil, errors.CombineErrors(err, file.Close())
	}
	options := t.options
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
	if state := tableOf(f); t.figures && state.sizes.Load() == nil {
		state.sizes.Store(sizesOf(r, f))
	}
	return r, nil
}

// learnSeqs finds out which sequence numbers the entries of f have. Opening a table reads its
// properties only if they happen to be in what it reads anyway: before a large index they are not.
func (t *tableCache) learnSeqs(f *manifest.FileMeta) {
	if f.Seqs.Load() != nil {
		return
	}
	r, err := t.ref(f)
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

// checkTableSize compares the size of a table's file with the MANIFEST's. Open asks
// for all tables at once, and whoever opens one asks again.
func checkTableSize(f *manifest.FileMeta, size int64, path string) error {
	if uint64(size) == f.Size {
		return nil
	}
	return base.InFile(base.Corruptf("table", -1, "the file is %d bytes long, the MANIFEST says %d", size, f.Size), path, -1)
}

// ref returns f's reader with a reference, which keeps its file open until
// Unref.
func (t *tableCache) ref(f *manifest.FileMeta) (*sstable.Reader, error) {
	for {
		r, err := t.get(f)
		if err != nil {
			return nil, err
		}
		if r.Ref() {
			return r, nil
		}
	}
}

// drop closes f's reader for good: the table is obsolete.
func (t *tableCache) drop(f *manifest.FileMeta) { t.open.DropOne(&tableOf(f).reader) }

// close closes all tables, and keeps others from being opened. What somebody has a
// reference of can be read on.
func (t *tableCache) close() {
	t.closed.Store(true)
	t.open.Close()
}

// obsoleteFiles holds tables that no version names any more until they are
// removed.
type obsoleteFiles struct {
	mu    sync.Mutex
	files []manifest.LevelFile
	kick  chan struct{} // wakes the cleaner; capacity 1
}

// add is the Set's Obsolete function: it must not block.
func (o *obsoleteFiles) add(files []manifest.LevelFile) {
	o.mu.Lock()
	o.files = append(o.files, files...)
	o.mu.Unlock()
	select {
	case o.kick <- struct{}{}:
	default:
	}
}

func (o *obsoleteFiles) count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.files)
}

// remove removes the files that are waiting. Several goroutines may call it;
// each file is removed by one of them.
func (o *obsoleteFiles) remove(d *DB) {
	o.mu.Lock()
	files := o.files
	o.files = nil
	o.mu.Unlock()
	for _, f := range files {
		d.tables.drop(f.File)
		d.removeFile(filepath.Join(d.dir, f.File.Name()))
		tell(d, d.opts.EventListener.TableRemoved, f.File.Num)
	}
}

// cleanLoop removes files that readers gave up, until the store closes.
func (d *DB) cleanLoop() {
	defer d.background.Done()
	for {
		select {
		case <-d.obsolete.kick:
			_ = d.guard("the removal of tables", func() error { d.obsolete.remove(d); return nil })
		case <-d.closing:
			return
		}
	}
}
