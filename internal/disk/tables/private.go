package tables

import (
	"sort"
	"sync/atomic"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/sstable"
)

// Private is the set of tables that a transaction writes before its commit. They have temporary names and
// are in no version. Its owner, one goroutine at a time, adds tables, which iterators of any goroutine read.
// Each of them has a reference. The files are removed when the last reference is dropped.
type Private struct {
	cache *Cache
	dir   Directory
	refs  atomic.Int32
	files []*version.FileMeta // the oldest first
	runs  PrivateRuns
}

// PrivateRuns are tables of a Private, as runs of ascending tables, the newest run first. They do not change.
type PrivateRuns [][]*version.FileMeta

// NewPrivate returns an empty Private with one reference.
func NewPrivate(c *Cache, dir Directory) *Private {
	p := &Private{cache: c, dir: dir}
	p.refs.Store(1)
	return p
}

// Ref takes a reference.
func (p *Private) Ref() { p.refs.Add(1) }

// Unref drops a reference.
func (p *Private) Unref() {
	if p.refs.Add(-1) > 0 {
		return
	}
	if p.cache.closed.Load() {
		return // another program may have the directory; the next opening removes the files
	}
	for _, f := range p.files {
		p.cache.Drop(f)
		p.dir.Remove(p.dir.File(base.FileTemp, f.Num))
	}
}

// Shared reports whether an iterator has a reference. If not, none will until the owner gives one away.
func (p *Private) Shared() bool { return p.refs.Load() > 1 }

// Files returns all tables, the oldest first.
func (p *Private) Files() []*version.FileMeta { return p.files }

// Runs returns the runs that there are now.
func (p *Private) Runs() PrivateRuns { return p.runs }

// Add adds a finished table that is newer than the others.
func (p *Private) Add(f *version.FileMeta) {
	f.Temporary = true
	p.files = append(p.files, f)
	if len(p.runs) > 0 {
		run := p.runs[0]
		last := run[len(run)-1]
		if p.cache.options.Reader.Comparer.Compare(base.UserKey(last.Largest), base.UserKey(f.Smallest)) < 0 {
			runs := append(PrivateRuns{}, p.runs...)
			runs[0] = append(run, f) // iterators do not look beyond the end of theirs
			p.runs = runs
			return
		}
	}
	p.runs = append(PrivateRuns{{f}}, p.runs...)
}

// Release closes the tables, whose files now belong to the caller. No iterator may have a reference.
func (p *Private) Release() {
	for _, f := range p.files {
		p.cache.Drop(f)
	}
	p.files, p.runs = nil, nil
}

// Published returns the description of f under another number, for a version, with a handle of its own.
func Published(f *version.FileMeta, num uint64) *version.FileMeta {
	g := version.NewFileMeta(num, f.Size, f.Smallest, f.Largest)
	handle := new(Table)
	handle.sizes.Store(Of(f).sizes.Load())
	g.Handle = handle
	g.SetCounts(f.Counts())
	g.Seqs.Store(f.Seqs.Load())
	return g
}

// Find looks up a key, with which lookup was initialized. The result is as for a Reader's lookups.
func (runs PrivateRuns) Find(c *Cache, lookup *sstable.Lookup) (sstable.Result, error) {
	cmp, key := c.options.Reader.Comparer, lookup.UserKey()
	for _, run := range runs {
		i := sort.Search(len(run), func(i int) bool { return cmp.Compare(base.UserKey(run[i].Largest), key) >= 0 })
		if i == len(run) || cmp.Compare(base.UserKey(run[i].Smallest), key) > 0 {
			continue
		}
		res, err := c.GetHeld(run[i], lookup)
		if err != nil || res.Found {
			return res, err
		}
	}
	return sstable.Result{}, nil
}

// AddTo adds the runs to m, with iterators in levels, which have room for them. o must not change
// until they are closed.
func (runs PrivateRuns) AddTo(m *MergingIter, c *Cache, levels []LevelIter, o *sstable.IterOptions) {
	for i, run := range runs {
		levels[i].Init(c, c.options.Reader.Comparer, run, o)
		m.Add(&levels[i])
	}
}
