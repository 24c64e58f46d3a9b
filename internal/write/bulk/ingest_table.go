package bulk

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/base/expiry"
	"github.com/sievedb/sievedb/internal/disk/batch"
	"github.com/sievedb/sievedb/internal/disk/check"
	"github.com/sievedb/sievedb/internal/disk/foreign"
	"github.com/sievedb/sievedb/internal/disk/tables"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/sstable"
	"github.com/sievedb/sievedb/vfs"
)

// table is a table to add.
type table struct {
	path string // for errors
	rank int    // the position in the call; the greatest has precedence
	// temp is the number of the temporary file, which exists if here is set.
	temp   uint64
	here   bool
	linked bool // the file has another name elsewhere
	ours   bool // the store wrote it
	info   fs.FileInfo

	// meta has no valid number.
	meta           *version.FileMeta
	minSeq, maxSeq uint64
	entries        uint64
	tombstones     uint64

	rewrite bool // it cannot stay as it is
	seen    bool // only because of a snapshot
	written bool // its entries are in a run
}

func (t *table) smallest() []byte { return base.UserKey(t.meta.Smallest) }
func (t *table) largest() []byte  { return base.UserKey(t.meta.Largest) }

// takeFile links or copies the file of t to its temporary name.
func (j *ingest) takeFile(t *table) error {
	info, err := j.Dir.FS.Lstat(t.path)
	switch {
	case err != nil:
		return err
	case info.Mode()&fs.ModeSymlink != 0:
		return errors.New("it is a symbolic link; name the file that it points to")
	case !info.Mode().IsRegular():
		return errors.New("it is not a plain file; want a table")
	case j.isOwn(t.path):
		return errors.New("it is in the directory of this database; ingest tables from another directory")
	}
	temp := j.Dir.File(base.FileTemp, t.temp)
	if t.linked, err = j.link(t, temp); err != nil {
		return err
	}
	if !t.linked {
		if err := j.copy(t, temp); err != nil {
			return err
		}
	}
	t.here = true
	t.info, err = j.Dir.FS.Lstat(temp)
	if err == nil && !t.info.Mode().IsRegular() {
		err = errors.New("it was replaced by a file that is not plain while it was linked")
	}
	return err
}

// isOwn reports whether a file is in the store's directory.
func (j *ingest) isOwn(path string) bool {
	dir := filepath.Dir(path)
	if dir == filepath.Clean(j.Dir.Path) {
		return true
	}
	a, errA := j.Dir.FS.Stat(dir)
	b, errB := j.Dir.FS.Stat(j.Dir.Path)
	return errA == nil && errB == nil && os.SameFile(a, b)
}

// link links the file durably, or reports that it must be copied.
func (j *ingest) link(t *table, temp string) (linked bool, err error) {
	if j.copies || j.Dir.FS.Link(t.path, temp) != nil {
		return false, nil
	}
	t.here = true
	if err := vfs.SyncFile(j.Dir.FS, temp); err != vfs.ErrNoFileSync {
		return true, err
	}
	err = j.Dir.FS.Remove(temp)
	t.here = err != nil
	return false, err
}

// copy copies the file durably.
func (j *ingest) copy(t *table, temp string) error {
	src, err := j.Dir.FS.Open(t.path)
	if err != nil {
		return err
	}
	defer src.Close()
	size, err := src.Size()
	if err != nil {
		return err
	}
	return vfs.Copy(j.Dir.FS, src, size, temp)
}

// check checks all tables, several at a time, and sorts them. Tables without entries are dropped.
func (j *ingest) check() error {
	ctx, cancel := context.WithCancelCause(j.ctx)
	defer cancel(nil)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(j.tables)) {
		base.GoIn(&wg, func() {
			for i := int(next.Add(1)) - 1; i < len(j.tables) && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				t := j.tables[i]
				err := base.Catch(j.Cmp, "an ingest", func() error { return j.checkTable(ctx, t) })
				if err != nil {
					cancel(base.InFile(err, t.path, -1))
				}
			}
		})
	}
	wg.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	j.tables = slices.DeleteFunc(j.tables, func(t *table) bool {
		if t.entries == 0 {
			j.drop(t)
		}
		return t.entries == 0
	})
	j.sort()
	return nil
}

// checkCache is the size of the block cache for the check of one table, in bytes: lookups of the keys
// of a block must not read it again.
const checkCache = 1 << 20

// checkForeign refuses a table with parts of other engines.
func (j *ingest) checkForeign(t *table) error {
	file, err := j.Dir.FS.Open(j.Dir.File(base.FileTemp, t.temp))
	if err != nil {
		return err
	}
	defer file.Close()
	return foreign.CheckTable(file, t.path, j.Cmp.Name)
}

// open opens the table. With keys, it must begin and end with them.
func (j *ingest) open(t *table, smallest, largest []byte) (*sstable.Reader, error) {
	file, err := j.Dir.FS.Open(j.Dir.File(base.FileTemp, t.temp))
	if err != nil {
		return nil, err
	}
	return sstable.Open(file, sstable.ReaderOptions{
		Comparer: j.Cmp, Policies: j.Known, Name: t.path, Cache: sstable.NewBlockCache(checkCache),
		Smallest: smallest, Largest: largest,
	})
}

var errOtherValues = errors.Sentinel("its values are in value tables of the database that it is from; " +
	"there, Compact with TableOptions.SeparateValues 0 makes tables that can be ingested")

// checkTable reads a table as a whole.
func (j *ingest) checkTable(ctx context.Context, t *table) error {
	if err := j.goOn(j.ctx, nil); err != nil {
		return err
	}
	if err := j.checkForeign(t); err != nil {
		return err
	}
	r, err := j.open(t, nil, nil)
	if err != nil {
		return err
	}
	defer r.Close()
	if r.HasRefs() {
		return errOtherValues
	}
	if r.IsValueTable() {
		return errors.New("it is a value table: it has values of other tables, of which it is not known which are still in use")
	}
	e := examiner{ingest: j, table: t, meta: version.NewFileMeta(0, uint64(t.info.Size()), nil, nil), minSeq: base.MaxSeq}
	err = check.Reader(ctx, r, check.Options{Comparer: j.Cmp, Policies: j.Known}, e.note)
	switch {
	case err == nil:
		err = e.end(r)
	case err != e.err && !base.IsUnreadable(err):
		err = errors.Wrapf(err, "reading it by comparer %q", j.Cmp.Name)
	}
	if err != nil || e.entries == 0 {
		return err
	}
	t.meta, t.minSeq, t.maxSeq, t.entries, t.tombstones = e.meta, e.minSeq, e.maxSeq, e.entries, e.tombstones
	// The store opens the table in this way.
	again, err := j.open(t, t.meta.Smallest, t.meta.Largest)
	if err != nil {
		return err
	}
	return again.Close()
}

// examiner collects what a table has while it is read.
type examiner struct {
	*ingest
	table *table
	meta  *version.FileMeta
	meter check.Meter
	err   error // of an entry

	minSeq, maxSeq      uint64
	entries, tombstones uint64
	lastExpiry          uint64
	stays               bool // a value does not expire
	outside             bool // a key is not under the prefixes
}

// note is called for each entry.
func (e *examiner) note(ikey, value []byte) error {
	if e.meter.Due(len(ikey) + len(value)) {
		if e.err = e.goOn(e.ctx, nil); e.err != nil {
			return e.err
		}
	}
	e.err = e.examine(ikey, value)
	return e.err
}

func (e *examiner) examine(ikey, value []byte) error {
	seq, kind := base.SplitTrailer(base.Trailer(ikey))
	key := base.UserKey(ikey)
	if err := batch.CheckEntry(key, value); err != nil {
		return errors.Wrapf(err, "entry %d", e.entries+1)
	}
	if kind == base.KindRef { // the table lists no references
		return errors.Newf("entry %d has the unknown kind %d; Pebble and RocksDB use it for merges", e.entries+1, kind)
	}
	if e.entries == 0 {
		e.meta.Smallest = slices.Clone(ikey)
	}
	e.meta.Largest = append(e.meta.Largest[:0], ikey...)
	e.entries++
	e.minSeq, e.maxSeq = min(e.minSeq, seq), max(e.maxSeq, seq)
	if kind == base.KindDelete {
		e.tombstones++
		return nil
	}
	at, sealed := expiry.Decode(value)
	under := e.Expiry.Under(key)
	if !sealed && under {
		return errors.Wrapf(expiry.ErrNoEnvelope, "entry %d", e.entries)
	}
	e.outside = e.outside || !under
	e.stays = e.stays || !sealed || at == expiry.Never
	e.lastExpiry = max(e.lastExpiry, at)
	return nil
}

// end compares the properties with the entries. The store uses them to find entries that are newer than
// a sequence number, and to remove tables that have expired.
func (e *examiner) end(r *sstable.Reader) error {
	p, ok, err := r.CheckProperties()
	if err != nil {
		return err
	}
	counts := &version.TableCounts{Entries: e.entries, Tombstones: e.tombstones, LargestSeq: e.maxSeq}
	if ok && e.entries > 0 {
		switch {
		case p.Entries != e.entries || p.Deletions != e.tombstones:
			return errors.Newf("its properties say that it has %d entries with %d deletions, but it has %d with %d",
				p.Entries, p.Deletions, e.entries, e.tombstones)
		case p.SmallestSeq != e.minSeq || p.LargestSeq < e.maxSeq || p.LargestSeq > base.MaxSeq:
			return errors.Newf("its properties say that its sequence numbers are %d to %d, but they are %d to %d",
				p.SmallestSeq, p.LargestSeq, e.minSeq, e.maxSeq)
		case p.LargestExpiry != 0 && (e.stays || p.LargestExpiry < e.lastExpiry || e.outside && e.Expiry != nil && p.ExpiryKeys == e.Expiry.Sum()):
			return errors.Newf("its properties say that all values have expired at %d, but some have not", p.LargestExpiry)
		}
		e.maxSeq = p.LargestSeq // some entries may have lost their numbers; see sstable.Properties
		counts.LargestSeq, counts.Expiry, counts.ExpiryKeys = p.LargestSeq, p.LargestExpiry, p.ExpiryKeys
	}
	e.meta.Handle = tables.NewHandle()
	e.meta.SetCounts(counts)
	e.meta.Seqs.Store(&version.SeqRange{Smallest: e.minSeq, Largest: e.maxSeq, Known: e.entries > 0})
	return nil
}
