package db

import (
	"math"
	"runtime"

	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/limit/share"
	"github.com/sievedb/sievedb/report"
)

// Resources are memory, open files and compaction slots that several databases share: set Resources of
// the options of each. Make one with NewResources. It needs no Close, and may be used for other databases after
// all have been closed. Its methods may be called from any goroutine.
//
// What each database has at least is kept for it, whatever the others do. One that fails, hangs,
// panics or is never closed keeps what it has at that moment, and the others continue with the rest.
type Resources struct{ shared *share.Resources }

// ResourcesOptions are what databases share. The zero value of each field is its default.
type ResourcesOptions struct {
	// MaxStores is the number of databases that may be open at a time; Open refuses others. It
	// decides what each has at least: half of an equal share of CacheSize and MaxOpenFiles, and
	// of MemtableSize. The other half goes to those that use it. Default: 64. At most 65536.
	MaxStores int

	// CacheSize bounds the block caches of all databases together, in bytes, with the filters and indexes of their open
	// tables. These use at most seven eighths: above that, the database whose tables use most closes those that it did
	// not use lately, but keeps ten open. Default: 256 MiB. Negative: no cache.
	CacheSize int64

	// MaxOpenFiles bounds the number of open tables of all databases. Those that iterators use, files being written,
	// and files being closed count in addition. Default: a quarter of the descriptors that the process may have, at
	// least 1000 and at most 10000, but at least 10 for each of MaxStores, which is the minimum.
	MaxOpenFiles int

	// MemtableSize bounds the memtables of all databases, in bytes, with those that wait for their flush. A database
	// begins with a memtable of a quarter of an equal share, and has two of those in any case. Once it fills them it
	// gets larger ones, up to Memtables.Size of its options and an eighth of MemtableSize. If too little is left, it
	// continues with smaller ones, and a database that has filled its memtable more slowly flushes that early. Writers
	// never wait for other databases.
	//
	// In addition, if nothing is free, there is the memtable for a single write that is larger than
	// those, and for the logs at Open. The memory of flushed memtables is used until Go's garbage
	// collector frees it. Default: 256 MiB. Minimum: 64 KiB for each of MaxStores.
	MemtableSize int64

	// MaxConcurrent is the number of concurrent merges of all databases, including those of Compact and UpgradeFilters.
	// Free slots go to databases whose level 0 slows their writers, then to those that compact level 0, then to others
	// by turns. While several databases are open, none takes all slots, unless there is only one; if one that was alone
	// has them, there is one more for the others. Default: half of the processors, at least 2. At most 64.
	MaxConcurrent int
}

// NewResources returns Resources that no database uses yet. An option that is out of range is an error that
// names it and its bounds.
func NewResources(o ResourcesOptions) (*Resources, error) {
	n := &numbers{of: "ResourcesOptions"}
	number(n, "MaxStores", &o.MaxStores, 64, 1, 1<<16)
	number(n, "CacheSize", &o.CacheSize, 256<<20, math.MinInt64, 1<<50)
	number(n, "MaxOpenFiles", &o.MaxOpenFiles, max(share.DefaultMaxOpenFiles(), 10*o.MaxStores), 10*o.MaxStores, math.MaxInt32)
	number(n, "MemtableSize", &o.MemtableSize, 256<<20, int64(o.MaxStores)*64<<10, 1<<50)
	number(n, "MaxConcurrent", &o.MaxConcurrent, min(max(runtime.GOMAXPROCS(0)/2, 2), 64), 1, 64)
	if n.outOfRange != nil {
		return nil, n.outOfRange
	}
	return &Resources{share.New(share.Options{
		MaxStores: o.MaxStores, CacheBytes: max(o.CacheSize, 0), MaxOpenFiles: o.MaxOpenFiles,
		MemtableSize: o.MemtableSize, MaxMerges: o.MaxConcurrent,
	})}, nil
}

// Metrics returns what the databases use together, zeros for nil or zero Resources.
func (r *Resources) Metrics() *report.ResourcesMetrics {
	if r == nil || r.shared == nil {
		return &report.ResourcesMetrics{}
	}
	return r.shared.Metrics()
}

// limits returns the upper limits for a database that has a part of r, zero for nil or zero Resources.
func (r *Resources) limits() share.Options {
	if r == nil || r.shared == nil {
		return share.Options{}
	}
	return r.shared.Options()
}

// join returns the part of a database that is about to be opened, nil if r is nil.
func (r *Resources) join() (*share.Store, error) {
	switch {
	case r == nil:
		return nil, nil
	case r.shared == nil:
		return nil, errors.New("sievedb: Options.Resources is a zero Resources; make one with NewResources")
	}
	return r.shared.Join()
}

// yieldLoop flushes memtables whose memory another store needs, until the store closes.
func (d *DB) yieldLoop() {
	_ = d.commit.Guard("a flush for another store", func() error { d.commit.ServeMemory(); return nil })
}
