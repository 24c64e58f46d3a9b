package db

import "github.com/sievedb/sievedb/internal/disk/manifest"

// largestTable bounds the size of tables that grow with the database, in bytes: a sixteenth of Cache.Memory, so that
// the index and the filters of a table, again about a sixteenth of it, are a small part of that. What does not fit is
// read again, and then a lookup waits for all of one table. o has all defaults filled in.
func (o *Options) largestTable() uint64 {
	return uint64(max(o.Cache.Memory/16, manifest.LeastTableSize))
}

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
