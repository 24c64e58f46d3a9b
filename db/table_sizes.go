package db

import "github.com/sievedb/sievedb/internal/disk/manifest"

// largestTable bounds the size of tables that grow with the database, in bytes. The index and the filters of a table
// are about a sixteenth of it. A lookup that opens a table reads them, and they should not take the place of more than
// a small part of the cache. o has all defaults filled in.
func (o *Options) largestTable() uint64 { return uint64(max(o.Cache.Size, manifest.LeastTableSize)) }

// loadTableSize returns the size in bytes of the next table of a load that has written that many bytes.
func (d *DB) loadTableSize(written uint64) uint64 {
	o := d.options()
	if o.Tables.Size > 0 {
		return uint64(o.Tables.Size)
	}
	v := d.set.RefCurrent()
	defer v.Unref()
	return manifest.LoadTableSize(v.LastLevelBytes()+written, o.largestTable())
}
