package db

import "github.com/sievedb/sievedb/resources"

// Resources are memory, open files and compaction slots that several databases of a process share: set
// Options.Resources of each. Package resources documents its methods. Methods: Join, Limits, Metrics.
type Resources = resources.Resources

// ResourcesOptions are what databases share; package resources documents the fields. Fields: MaxStores, CacheSize,
// MaxOpenFiles, MemtableSize, MaxConcurrent.
type ResourcesOptions = resources.Options

// NewResources returns Resources that no database uses yet. An option that is out of range is an
// error that names it and its bounds.
func NewResources(o ResourcesOptions) (*Resources, error) { return resources.New(o) }

// yieldLoop flushes memtables whose memory another store needs, until the store closes.
func (d *DB) yieldLoop() {
	defer d.background.Done()
	_ = d.commit.Guard("a flush for another store", func() error { d.commit.ServeMemory(); return nil })
}
