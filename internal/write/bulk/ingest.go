package bulk

import (
	"context"
	"path/filepath"
	"slices"
	"time"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/internal/work/changes"
	"github.com/sievedb/sievedb/report"
)

// ingest is a call of Ingest, or the commit of a load that was overtaken.
//
//  1. Each file is linked to a temporary name in the store's directory, or copied if that fails. From here on only
//     that file is read, so it does not matter whether the path changes.
//  2. Each file is synced and checked as a whole: every block, the order of the keys, the index and all filters
//     against each key, the properties against the entries.
//  3. Tables that cannot stay as they are (see ingest_commit.go) are rewritten: the newest entry of each key gets a
//     reserved sequence number, as in a load.
//  4. As the leader of the writers the job flushes the writes of the meantime, checks again that the other tables
//     can stay, names all tables, and installs the edit. If a table cannot stay any more, it gives up the leadership
//     and continues with step 3.
type ingest struct {
	*Coordinator
	ctx    context.Context
	kind   changes.Kind
	copies bool     // of the files, and no links
	tables []*table // by their keys, once they are checked

	seq     uint64          // of the rewritten entries; 0: none
	tries   int             // how often the job has led
	unpin   func()          // ends Snapshots.Pin; nil before the first attempt to install
	drained <-chan struct{} // closed when no snapshot requires a rewriting any more; nil: none does
	runs    runs            // of rewritten entries
	info    report.Ingest
}

// Ingest adds the tables of paths. Later ones have precedence for a key. It links files unless copies is set. After
// an error there is nothing of them.
func (c *Coordinator) Ingest(ctx context.Context, paths []string, copies bool) (report.Ingest, error) {
	start := time.Now()
	j := &ingest{Coordinator: c, ctx: ctx, kind: changes.Ingest, copies: copies}
	defer j.end()
	err := j.take(paths)
	if err == nil {
		err = j.check()
	}
	if err == nil {
		err = j.commit()
	}
	if err != nil {
		return report.Ingest{}, errors.Wrap(base.NoSpace(err), "sievedb: Ingest")
	}
	j.info.Duration = time.Since(start)
	return j.info, nil
}

// adopt adds the tables of a load, which have temporary names. Each has one version of a key, and later ones have
// precedence. They are not checked. They belong to the job, which removes them after an error.
func (c *Coordinator) adopt(files []*version.FileMeta) (report.Ingest, error) {
	j := &ingest{Coordinator: c, ctx: context.Background(), kind: changes.Load}
	defer j.end()
	for i, f := range files {
		seqs := f.Seqs.Load()
		j.tables = append(j.tables, &table{
			path: c.Dir.File(base.FileTemp, f.Num), temp: f.Num, rank: i, meta: f, ours: true, here: true,
			minSeq: seqs.Smallest, maxSeq: seqs.Largest, entries: f.Counts().Entries,
		})
	}
	j.sort()
	err := j.commit()
	return j.info, errors.Wrap(err, "sievedb: load")
}

// sort sorts the tables by their keys.
func (j *ingest) sort() {
	slices.SortFunc(j.tables, func(a, b *table) int { return base.CompareInternal(j.Cmp, a.meta.Smallest, b.meta.Smallest) })
}

// end removes the temporary files that are left.
func (j *ingest) end() {
	if j.unpin != nil {
		j.unpin()
	}
	j.runs.discard()
	for _, t := range j.tables {
		j.drop(t)
	}
}

// drop removes the temporary file of t.
func (j *ingest) drop(t *table) {
	if t.here {
		t.here = false
		j.Dir.Remove(j.Dir.File(base.FileTemp, t.temp))
	}
}

// take gives each file a temporary name in the store's directory.
func (j *ingest) take(paths []string) error {
	seen := map[string]bool{}
	for rank, given := range paths {
		path, err := j.Dir.FS.Abs(given)
		if err != nil {
			return err
		}
		path = filepath.Clean(path)
		if seen[path] {
			return errors.Newf("%s is given twice; name each table once", given)
		}
		seen[path] = true
		if err := j.goOn(j.ctx, nil); err != nil {
			return err
		}
		t := &table{path: path, rank: rank, temp: j.Set.NewFileNum()}
		j.tables = append(j.tables, t)
		if err := j.takeFile(t); err != nil {
			return base.InFile(err, given, -1)
		}
	}
	return nil
}
