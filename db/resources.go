package db

import (
	"github.com/sievedb/sievedb/internal/read/lookup"
	"github.com/sievedb/sievedb/resources"
)

// Resources are memory, open files and compaction slots that several databases of a process share: set
// Options.Resources of each. Package resources documents its methods. Methods: Join, Limits, Metrics.
type Resources = resources.Resources

// ResourcesOptions are what databases share; package resources documents the fields. Fields: MaxStores, CacheSize,
// MaxOpenFiles, MemtableSize, MaxConcurrent.
type ResourcesOptions = resources.Options

// NewResources returns Resources that no database uses yet. An option that is out of range is an
// error that names it and its bounds.
func NewResources(o ResourcesOptions) (*Resources, error) { return resources.New(o) }

// lacksMemory reports whether a new memtable must wait for a flush of this store, because its part of
// the shared memory is used up. Only the leader calls it.
func (d *DB) lacksMemory(s *lookup.State) bool {
	if d.share == nil || len(s.Imm) == 0 || d.log.next != nil && d.log.next.mem != nil {
		return false
	}
	return !d.share.Memory().Room(0)
}

// awaitSuccessor waits until the successor that is being made is there, so that lacksMemory knows
// whether it has memory. Only the leader calls it.
func (d *DB) awaitSuccessor() {
	if d.share != nil && d.log.next != nil {
		<-d.log.next.done
	}
}

// yieldLoop flushes memtables whose memory another store needs, until the store closes.
func (d *DB) yieldLoop() {
	defer d.background.Done()
	_ = d.guard("a flush for another store", func() error {
		d.share.Memory().Serve(d.stop.begun, func() (yielded bool, err error) {
			err = d.commit.run(d, &commitRequest{alone: func(d *DB) (err error) {
				yielded, err = d.yieldMemory()
				return err
			}})
			return yielded, err
		})
		return nil
	})
}

// yieldMemory gives up the memory that other stores can use, or begins to flush it. It does not wait
// for a flush in progress. Only the leader runs it.
func (d *DB) yieldMemory() (yielded bool, err error) {
	d.awaitSuccessor()
	if next := d.log.next; next != nil && next.mem != nil && !next.mem.Grant.Small() {
		next.mem.Free()
		next.mem, yielded = nil, true
		d.spareMemory.Store(0)
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
