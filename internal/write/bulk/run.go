package bulk

import (
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/batch"
	"github.com/sievedb/sievedb/internal/disk/tables"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/vfs"
)

// run writes entries, in the order of their keys and each key once, to tables with temporary names. Its caller adds
// to its errors what they belong to, and calls discard in the end. It belongs to one goroutine.
type run struct {
	c       *Coordinator
	seq     uint64 // of the entries
	written uint64 // bytes in finished tables
	least   uint64 // bytes of a table
	size    uint64 // bytes at which the open table ends
	out     *tables.Writer
	syncs   *tables.Syncs // of out
	ikey    []byte        // of the last entry
	entries uint64
}

// newRun returns a run whose tables have at least leastSize bytes.
func (c *Coordinator) newRun(seq, leastSize uint64) *run {
	o := c.NewTables()
	o.Kind, o.Syncs = base.FileTemp, tables.NewSyncs()
	return &run{c: c, seq: seq, least: leastSize, out: tables.NewWriter(o), syncs: o.Syncs}
}

// add adds an entry, whose value has its envelope.
func (r *run) add(kind base.Kind, key, value []byte) error {
	if err := batch.CheckEntry(key, value); err != nil {
		return errors.Wrapf(err, "entry %d", r.entries+1)
	}
	if r.entries > 0 {
		switch order := r.c.Cmp.Compare(key, base.UserKey(r.ikey)); {
		case order == 0:
			return errors.Newf("entry %d has the key of the one before it; want rising keys, each once", r.entries+1)
		case order < 0:
			return errors.Newf("the key of entry %d sorts before that of the one before it; want rising keys by comparer %q", r.entries+1, r.c.Cmp.Name)
		}
	}
	r.ikey = base.AppendInternalKey(r.ikey[:0], key, r.seq, kind)
	if r.out.Open() && r.out.Size() >= r.size {
		if err := r.endTable(); err != nil {
			return err
		}
	}
	return r.append(r.ikey, value)
}

// append adds an entry with its internal key to the open table. It begins one if none is open.
func (r *run) append(ikey, value []byte) error {
	if !r.out.Open() {
		r.size = max(r.c.TableSize(r.written), r.least)
		if r.c.Plan.ByLevel() {
			r.out.SetFilter(r.c.Plan.LoadBits(r.entries).Policies(r.c.Policy))
		}
	}
	if err := r.out.Add(ikey, value); err != nil {
		return errors.Wrap(err, "writing a table")
	}
	r.entries++
	return nil
}

func (r *run) endTable() error {
	r.written += r.out.Size()
	return errors.Wrap(r.out.EndTable(), "writing a table")
}

// finish ends the last table and waits until all tables are durable.
func (r *run) finish() error {
	if r.out.Open() {
		if err := r.endTable(); err != nil {
			return err
		}
	}
	return errors.Wrap(r.syncs.Wait(), "syncing a table")
}

// take returns the finished tables, which do not belong to the run any more.
func (r *run) take() (files []*version.FileMeta) {
	files, r.out.Files = r.out.Files, nil
	return files
}

// discard removes the tables that the run has.
func (r *run) discard() {
	_ = r.syncs.Wait() // the files are durable or will be removed
	r.out.Abandon()
}

// runs are those of one job.
type runs []*run

// add adds a run and returns it.
func (rs *runs) add(r *run) *run {
	*rs = append(*rs, r)
	return r
}

// take returns the finished tables in the order of the runs, which do not have them any more.
func (rs runs) take() (files []*version.FileMeta) {
	for _, r := range rs {
		files = append(files, r.take()...)
	}
	return files
}

// discard discards the runs.
func (rs *runs) discard() {
	for _, r := range *rs {
		r.discard()
	}
	*rs = nil
}

// rename gives tables with temporary names others, of a kind, durably. The numbers are taken now because in level 0
// they say which table is newer. If the old names are kept, the others are links, or copies if there are no links.
// After an error no file has a new name, nor one that was not to be kept.
func (c *Coordinator) rename(files []*version.FileMeta, kind base.FileKind, keep bool) (named []*version.FileMeta, err error) {
	put := c.Dir.FS.Rename
	if keep {
		put = func(from, to string) error { return linkOrCopy(c.Dir.FS, from, to) }
	}
	for _, f := range files {
		g := tables.Published(f, c.Set.NewFileNum())
		named = append(named, g) // also if that fails: a part may have been done
		if err = put(c.Dir.File(base.FileTemp, f.Num), c.Dir.File(kind, g.Num)); err != nil {
			break
		}
	}
	if err == nil && len(files) > 0 {
		err = c.Dir.FS.SyncDir(c.Dir.Path)
	}
	if err == nil {
		return named, nil
	}
	c.remove(named, kind)
	if !keep {
		c.remove(files, base.FileTemp)
	}
	return nil, errors.Wrap(err, "naming the tables")
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
