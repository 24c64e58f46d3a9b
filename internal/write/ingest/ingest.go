package ingest

import (
	"context"
	"path/filepath"
	"slices"
	"time"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/base/expiry"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/disk/tables"
	"github.com/sievedb/sievedb/report"
)

// Host is the store that gets the tables.
type Host interface {
	// Flush writes the memtables to tables.
	Flush() error
	// Lead runs f while no writer writes. FlushLed, LastSeq, Between and Install are only called by f.
	Lead(f func() error) error
	// FlushLed is Flush for the leader.
	FlushLed() error
	// LastSeq returns the last sequence number assigned.
	LastSeq() uint64
	// Between runs f while no edit is written; see load.Host.
	Between(f func() error) error
	// Install applies an edit with the tables that were written for it, and advances the last and the
	// visible sequence number to seq. Snapshots that pin their state get the number and the version at
	// one moment, other readers the number first. Transactions that pin their state cannot find the
	// entries of the tables in came by their numbers.
	Install(edit *manifest.Edit, written []*manifest.FileMeta, seq uint64, came []*manifest.FileMeta) error
	// NewWriter returns a writer of tables whose entries have a sequence number.
	NewWriter(seq uint64) Writer
	// LastVisible returns the last sequence number that readers see.
	LastVisible() uint64
	// RefVersion returns the current version; the caller unrefs it.
	RefVersion() *manifest.Version
	// Pin makes new snapshots pin the state that they read, until unpin is called.
	Pin() (unpin func())
	// OldestUnpinned reports whether a snapshot is open that does not pin its state.
	OldestUnpinned() (seq uint64, open bool)
	// Exclude waits until no range is being deleted. No deletion begins until release is called.
	Exclude(ctx context.Context) (release func(), err error)
	// Closing is closed when the store closes.
	Closing() <-chan struct{}
}

// Compactor is what a job needs of the store's compactions; see compact.Scheduler.
type Compactor interface {
	ClearLevel0(ctx context.Context, files []*manifest.FileMeta) error
	Hold() (release func())
	Place(files []*manifest.FileMeta) []manifest.LevelFile
	Schedule()
}

// Writer writes entries in the order of their keys to tables with temporary names; see load.Loader.
type Writer interface {
	Add(kind base.Kind, key, value []byte) error
	Finish() error
	Name() ([]*manifest.FileMeta, error)
	Close() error
}

// Options configure an Ingester.
type Options struct {
	Cmp       *base.Comparer
	Compactor Compactor
	// Dir is the store's directory. The tables are read through its file system.
	Dir        tables.Directory
	NewFileNum func() uint64
	// Policies are the policies of the filters that are checked.
	Policies []filter.Policy
	// Check returns why an entry is too large, or nil.
	Check func(key, value []byte) error
	// Expiry says which values have envelopes.
	Expiry *expiry.Policy
	// Copy copies each table instead of linking it.
	Copy bool
	// Ahead is how many writes may happen while tables are rewritten; if more happen, they are
	// rewritten again. Default: 268 million.
	Ahead uint64
}

// Ingester adds tables to one store. It is safe for concurrent use.
type Ingester struct {
	Options
	host Host
}

// New returns an Ingester.
func New(o Options, host Host) *Ingester {
	if o.Ahead == 0 {
		o.Ahead = defaultAhead
	}
	return &Ingester{Options: o, host: host}
}

// Run adds the tables of paths. Later ones have precedence for a key. After an error there is nothing
// of them.
func (g *Ingester) Run(ctx context.Context, paths []string) (report.Ingest, error) {
	start := time.Now()
	j := &job{Ingester: g, ctx: ctx}
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

// Adopt adds tables that were written in the store's directory, under temporary names. Each has one version
// of a key, and later ones have precedence. They are not checked. They belong to the job, which removes
// them after an error.
func (g *Ingester) Adopt(ctx context.Context, files []*manifest.FileMeta) (report.Ingest, error) {
	j := &job{Ingester: g, ctx: ctx}
	defer j.end()
	for i, f := range files {
		seqs := f.Seqs.Load()
		j.tables = append(j.tables, &table{
			path: g.Dir.File(base.FileTemp, f.Num), temp: f.Num, rank: i, meta: f, ours: true, here: true,
			minSeq: seqs.Smallest, maxSeq: seqs.Largest, entries: f.Counts.Load().Entries,
		})
	}
	j.sort()
	err := j.commit()
	return j.info, errors.Wrap(err, "sievedb: load")
}

// sort sorts the tables by their keys.
func (j *job) sort() {
	slices.SortFunc(j.tables, func(a, b *table) int { return base.CompareInternal(j.Cmp, a.meta.Smallest, b.meta.Smallest) })
}

// job is one call.
type job struct {
	*Ingester
	ctx    context.Context
	tables []*table // by their keys, once they are checked

	seq     uint64 // of the rewritten entries; 0: none
	tries   int    // how often the job has led
	writers []Writer
	info    report.Ingest
}

// end removes the temporary files that are left.
func (j *job) end() {
	j.closeWriters()
	for _, t := range j.tables {
		j.drop(t)
	}
}

func (j *job) closeWriters() {
	for _, w := range j.writers {
		_ = w.Close()
	}
	j.writers = nil
}

// drop removes the temporary file of t.
func (j *job) drop(t *table) {
	if t.here {
		t.here = false
		j.Dir.Remove(j.Dir.File(base.FileTemp, t.temp))
	}
}

// goOn returns the reason to stop, if there is one.
func (j *job) goOn() error {
	select {
	case <-j.host.Closing():
		return base.ErrClosed
	default:
		return j.ctx.Err()
	}
}

// take gives each file a temporary name in the store's directory.
func (j *job) take(paths []string) error {
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
		if err := j.goOn(); err != nil {
			return err
		}
		t := &table{path: path, rank: rank, temp: j.NewFileNum()}
		j.tables = append(j.tables, t)
		if err := j.takeFile(t); err != nil {
			return base.InFile(err, given, -1)
		}
	}
	return nil
}
