package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/sievedb/sievedb/cluster/internal/logstore"
	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/sstable"
	"github.com/sievedb/sievedb/vfs"
)

// A scrub reads the tables and logs of all databases of the node, the log store and the states, at a low rate, so that
// damage is found while other replicas are sound. What is done about it is in scrubheal.go. It reads past the
// block caches, but not past the file cache of the system.
const (
	scrubPass  = 7 * 24 * time.Hour // for everything, unless the rate is out of its bounds
	minScrub   = 64 << 10           // bytes per second
	maxScrub   = 4 << 20
	scrubRetry = time.Second // before a read that failed is tried again
)

// scrubber is what the scrub of a node has done and found.
type scrubber struct {
	mu sync.Mutex
	// These are guarded by mu.
	due      time.Time // when what was read is paid for
	did      Scrubbed
	findings []*finding
	spared   spared
}

// Scrubbed is what the scrub has done since the start of the node.
type Scrubbed struct {
	// Bytes were read, in Passes over all files. The last ended at LastPass, zero if none has.
	Bytes    uint64
	Passes   int
	LastPass time.Time
	// Found is the number of damaged files, Healed that of those that were replaced since.
	Found, Healed int
}

// Scrubbed returns what the scrub has done.
func (n *Node) Scrubbed() Scrubbed {
	n.scrub.mu.Lock()
	defer n.scrub.mu.Unlock()
	return n.scrub.did
}

// scrubbed is a database that is read: the log store, or the state of a replica.
type scrubbed struct {
	place *place          // of the replica; nil: the log store
	h     *hosted         // the replica
	logs  *logstore.Store // the log store
	dir   string
}

func (s *scrubbed) String() string {
	if s.place == nil {
		return "the log of the node"
	}
	return fmt.Sprintf("the state of group %d", s.place.id)
}

// withDB calls f with the database.
func (s *scrubbed) withDB(f func(d *db.DB) error) error {
	if s.place == nil {
		return f(s.logs.DB())
	}
	return s.h.state.WithDB(f)
}

// scrubTargets returns the databases that work.
func (n *Node) scrubTargets() (all []*scrubbed) {
	if store := n.logs.get(); store != nil && store.Err() == nil {
		all = append(all, &scrubbed{logs: store, dir: logDir(n.o.Dir)})
	}
	for _, p := range n.places {
		if h := p.get(); h != nil && h.err() == nil {
			all = append(all, &scrubbed{place: p, h: h, dir: h.state.StateDir()})
		}
	}
	return all
}

// scrubLoop makes one pass after the other.
func (n *Node) scrubLoop(ctx context.Context) {
	if n.o.Scrub.BytesPerSecond < 0 {
		return
	}
	for {
		began := time.Now()
		for _, s := range n.scrubTargets() {
			n.scrubStore(ctx, s)
		}
		if ctx.Err() == nil {
			n.scrub.mu.Lock()
			n.scrub.did.Passes++
			n.scrub.did.LastPass = time.Now()
			n.scrub.mu.Unlock()
		}
		if n.sleep(ctx, time.Until(began.Add(n.o.Scrub.Every))) != nil {
			return
		}
	}
}

// scrubFile is a file of a database.
type scrubFile struct {
	path string
	size int64
}

// scrubFiles returns the tables and logs in a directory.
func (n *Node) scrubFiles(dir string) (all []scrubFile) {
	names, err := n.o.FS.List(dir)
	if err != nil {
		return nil
	}
	for _, name := range names {
		if !isTable(name) && filepath.Ext(name) != ".log" {
			continue
		}
		path := filepath.Join(dir, name)
		if info, err := n.o.FS.Lstat(path); err == nil {
			all = append(all, scrubFile{path, info.Size()})
		}
	}
	return all
}

func isTable(name string) bool {
	ext := filepath.Ext(name)
	return ext == ".ldb" || ext == ".sst" || ext == ".values"
}

// scrubRate returns the bytes per second of a pass.
func (n *Node) scrubRate() int64 {
	if n.o.Scrub.BytesPerSecond > 0 {
		return n.o.Scrub.BytesPerSecond
	}
	var bytes int64
	for _, s := range n.scrubTargets() {
		for _, f := range n.scrubFiles(s.dir) {
			bytes += f.size
		}
	}
	return rateFor(bytes)
}

// rateFor returns the bytes per second at which a number of bytes takes a week, within the bounds.
func rateFor(bytes int64) int64 {
	return min(max(bytes/int64(scrubPass/time.Second), minScrub), maxScrub)
}

// scrubStore reads the files of a database.
func (n *Node) scrubStore(ctx context.Context, s *scrubbed) {
	rate := n.scrubRate()
	for _, f := range n.scrubFiles(s.dir) {
		err := n.scrubOne(ctx, s, f, rate)
		if err == nil || ctx.Err() != nil {
			continue
		}
		if n.sleep(ctx, min(scrubRetry, n.o.Scrub.Every)) != nil {
			return
		}
		if err = n.scrubOne(ctx, s, f, rate); err != nil && ctx.Err() == nil {
			n.foundDamage(s, f.path, err)
		}
	}
}

// scrubOne reads a file and returns what is wrong with it. A file that is gone, and one that another version wrote, is
// not damaged.
func (n *Node) scrubOne(ctx context.Context, s *scrubbed, f scrubFile, rate int64) (err error) {
	file, err := n.o.FS.Open(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	paced := &pacedFile{File: file, n: n, ctx: ctx, perSecond: rate}
	if isTable(f.path) {
		err = sstable.VerifyContent(paced, nil)
	} else {
		err = db.CheckLog(paced)
	}
	err = errors.Join(err, file.Close())
	if err != nil && (errors.Is(err, db.ErrNewer) || !n.inUse(s, f.path)) {
		return nil
	}
	return err
}

// inUse reports whether a database needs a file: it may be a table that is not complete yet, or one that is about to be
// removed.
func (n *Node) inUse(s *scrubbed, path string) bool {
	if !isTable(path) {
		_, err := n.o.FS.Lstat(path)
		return err == nil
	}
	used := false
	_ = s.withDB(func(d *db.DB) error {
		tables, _ := d.Tables() // has all of them, also if some cannot be opened
		used = slices.ContainsFunc(tables, func(t db.TableInfo) bool { return t.Name == filepath.Base(path) })
		return nil
	})
	return used && (s.place == nil || s.h.state.StateDir() == filepath.Dir(path))
}

// pacedFile is a file that is read at the rate of the scrub.
type pacedFile struct {
	vfs.File
	n         *Node
	ctx       context.Context
	perSecond int64
}

// ReadAt implements io.ReaderAt. It fails when the context ends.
func (f *pacedFile) ReadAt(p []byte, off int64) (int, error) {
	read, err := f.File.ReadAt(p, off)
	s, now := &f.n.scrub, time.Now()
	s.mu.Lock()
	s.did.Bytes += uint64(read)
	if s.due.Before(now) {
		s.due = now
	}
	s.due = s.due.Add(time.Duration(float64(read) / float64(f.perSecond) * float64(time.Second)))
	wait := s.due.Sub(now)
	s.mu.Unlock()
	return read, cmp.Or(f.n.sleep(f.ctx, wait), err)
}
