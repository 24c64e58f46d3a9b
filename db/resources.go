package db

import (
	"math"
	"runtime"

	"github.com/sievedb/sievedb/internal/errors"
	"github.com/sievedb/sievedb/internal/lookup"
	"github.com/sievedb/sievedb/internal/share"
	"github.com/sievedb/sievedb/memtable"
)

// Resources are memory, open files and compaction slots that several databases of a process share:
// set Options.Resources of each. Make one with NewResources. It needs no Close, and may be used for
// other databases after all have been closed. Its methods may be called from any goroutine.
//
// What each database has at least is kept for it, whatever the others do. One that fails, hangs,
// panics or is never closed keeps what it has at that moment, and the others go on with the rest.
type Resources struct{ shared *share.Resources }

// ResourcesOptions are what databases share. The zero value of each field is its default.
type ResourcesOptions struct {
	// MaxStores is the number of databases that may be open at a time; Open refuses others. It
	// decides what each has at least: half of an equal share of CacheSize and MaxOpenFiles, counted
	// by the databases that are open if they are fewer, and of MemtableSize. The other half goes to
	// those that use it. Default: 64. At most 65536.
	MaxStores int

	// CacheSize bounds the block caches of all databases together, in bytes, and the filters and
	// indexes of their open tables, as if Options.Cache.ChargeTables were set: these are in addition
	// only if they alone need more. Default: 256 MiB. Negative: no cache.
	CacheSize int64

	// MaxOpenFiles bounds the number of open tables of all databases. Those that iterators use, files
	// being written, and files being closed count in addition. Default: as Options.Cache.MaxOpenFiles,
	// but at least 10 for each of MaxStores, which is the minimum.
	MaxOpenFiles int

	// MemtableSize bounds the memtables of all databases, in bytes, with those that wait for their
	// flush. A database begins with a memtable of a quarter of an equal share, and has two of those
	// in any case. Once it fills them it gets larger ones, up to Options.Memtables.Size and an eighth
	// of MemtableSize. If too little is left, it goes on with smaller ones, and a database that has
	// used its memtable more slowly flushes that early. Writers never wait for other databases.
	//
	// In addition, if nothing is free, there is the memtable for a single write that is larger than
	// those, and for the logs at Open. The memory of flushed memtables is used until Go's garbage
	// collector frees it; see docs/sharing.md. Default: 256 MiB. Minimum: 64 KiB for each of MaxStores.
	MemtableSize int64

	// MaxConcurrent is the number of concurrent merges of all databases, including those of Compact
	// and UpgradeFilters; see CompactionOptions.MaxConcurrent. Free slots go to databases whose level
	// 0 slows their writers, then to others by turns. Default: half of the processors, at least 2. At
	// most 64.
	MaxConcurrent int
}

// NewResources returns Resources that no database uses yet. An option that is out of range is an
// error that names it and its bounds.
func NewResources(o ResourcesOptions) (*Resources, error) {
	setDefault(&o.MaxStores, 64)
	setDefault(&o.CacheSize, 256<<20)
	setDefault(&o.MaxOpenFiles, max(defaultMaxOpenFiles(), 10*o.MaxStores))
	setDefault(&o.MemtableSize, 256<<20)
	setDefault(&o.MaxConcurrent, min(max(runtime.GOMAXPROCS(0)/2, 2), 64))
	for _, r := range []struct {
		field            string
		value, low, high int64
	}{
		{"MaxStores", int64(o.MaxStores), 1, 1 << 16},
		{"MaxOpenFiles", int64(o.MaxOpenFiles), 10 * int64(o.MaxStores), math.MaxInt32},
		{"MemtableSize", o.MemtableSize, int64(o.MaxStores) * 64 << 10, 1 << 50},
		{"MaxConcurrent", int64(o.MaxConcurrent), 1, 64},
	} {
		if r.value < r.low || r.value > r.high {
			return nil, errors.Newf("sievedb: ResourcesOptions.%s is %d; it must be from %d to %d", r.field, r.value, r.low, r.high)
		}
	}
	return &Resources{share.New(share.Options{
		MaxStores: o.MaxStores, CacheBytes: max(o.CacheSize, 0), MaxOpenFiles: o.MaxOpenFiles,
		MemtableSize: o.MemtableSize, MaxMerges: o.MaxConcurrent,
	})}, nil
}

// Metrics returns what the databases use together, the zero ResourcesMetrics for nil or zero Resources.
func (r *Resources) Metrics() *ResourcesMetrics {
	if r == nil || r.shared == nil {
		return &ResourcesMetrics{}
	}
	return r.shared.Metrics()
}

// setDefaults fills in the defaults of a database that has a part of r, which may be nil.
func (r *Resources) setDefaults(o *Options) {
	if r == nil || r.shared == nil {
		return
	}
	all := r.shared.Options()
	setDefault(&o.Cache.Size, all.CacheBytes)
	setDefault(&o.Cache.MaxOpenFiles, all.MaxOpenFiles)
	setDefault(&o.Compaction.MaxConcurrent, all.MaxMerges)
	o.Cache.ChargeTables = true
}

// join returns the part of a database that is about to be opened, nil if r is nil.
func (r *Resources) join() (*share.Store, error) {
	if r == nil {
		return nil, nil
	}
	return r.shared.Join()
}

// totalFor returns the bytes of a memtable with its filter, given those of its arena.
func totalFor(arena uint64) int { return int(arena + arena/64 + 65) }

// newRecoveryMemtable returns the memtable for the logs at Open, of usual bytes or at least of least.
// Its memory is that of the one before, or is in addition.
func (d *DB) newRecoveryMemtable(grant **share.Grant) func(least, usual uint64) *memtable.Memtable {
	return func(least, usual uint64) *memtable.Memtable {
		(*grant).Release()
		*grant = d.share.Memory().Take(totalFor(usual), totalFor(least), false)
		if *grant != nil {
			usual = max(uint64(memtable.ArenaSize((*grant).Size(0))), least)
		}
		return memtable.New(d.cmp, int(usual))
	}
}

// lacksMemory reports whether a new memtable must wait for a flush of this store, because its part of
// the shared memory is used up. Only the leader calls it.
func (d *DB) lacksMemory(s *lookup.State) bool {
	if d.share == nil || len(s.Imm) == 0 || d.log.next.hasMemtable() {
		return false
	}
	return !d.share.Memory().Room(0)
}

// hasMemtable reports whether a memtable is there or being made.
func (s *successor) hasMemtable() bool {
	if s == nil {
		return false
	}
	select {
	case <-s.done:
		return s.mem != nil
	default:
		return true
	}
}

// yieldLoop flushes memtables whose memory another store needs, until the store closes.
func (d *DB) yieldLoop() {
	defer d.background.Done()
	_ = d.guard("a flush for another store", func() error { d.yieldAll(); return nil })
}

func (d *DB) yieldAll() {
	memory := d.share.Memory()
	for {
		select {
		case <-memory.Wanted():
		case <-d.closing:
			return
		}
		yielded := false
		err := d.commit.run(d, &commitRequest{alone: func(d *DB) (err error) {
			yielded, err = d.yieldMemory()
			return err
		}})
		memory.Answered(yielded && err == nil)
	}
}

// yieldMemory gives up the memory that other stores can use, or begins to flush it. It does not wait
// for a flush in progress. Only the leader runs it.
func (d *DB) yieldMemory() (yielded bool, err error) {
	if next := d.log.next; next != nil {
		<-next.done
		if next.mem != nil && !next.mem.Grant.Small() {
			next.mem.Free()
			next.mem, yielded = nil, true
			d.spareMemory.Store(0)
		}
	}
	switch mem := d.state().Mem; {
	case mem.Grant.Small() || d.writeErr() != nil || d.stalled():
		return yielded, nil
	case mem.Len() > 0:
		return true, d.flushActive()
	case d.log.w.Size() == 0:
		d.enlargeMemtable(mem.LogNum, 0) // a small one now
		return true, nil
	}
	return yielded, nil
}

// stalled reports whether a new memtable would have to wait. Only the leader calls it.
func (d *DB) stalled() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	reason, _ := d.stallReasonLocked()
	return reason != ""
}
