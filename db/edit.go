package db

import (
	"sync"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/disk/tables"
	"github.com/sievedb/sievedb/internal/read/lookup"
)

// leftovers are tables that no version names any more, or that may not be named.
type leftovers struct {
	obsolete *tables.Obsolete
	mu       sync.Mutex // guards uncertain; no other lock is acquired under it
	// uncertain are the tables of edits that failed and may be in force. A later edit decides.
	uncertain []*manifest.FileMeta
}

// applyEdit records edit in the MANIFEST and installs the resulting version. A MANIFEST that
// cannot be written ends the writes, unless the disk is full: then the next edit begins a new
// one. written are the tables that were written for this edit; after an error they are
// removed as soon as it is certain that the edit is not in force.
func (d *DB) applyEdit(edit *manifest.Edit, written []*manifest.FileMeta, also func(*lookup.State)) error {
	// Before Apply: nothing is certain yet about an edit that fails after this one.
	settled := d.takeUncertain()
	err := d.set.Apply(edit, func(v *manifest.Version) {
		d.commit.Install(func(s *lookup.State) {
			s.Version = v
			if also != nil {
				also(s)
			}
		})
	})
	if err == nil {
		d.removeTables(settled)
		return nil
	}
	if d.set.Failed() {
		d.commit.Fail(err)
	}
	if manifest.IsUncertain(err) {
		settled = append(settled, written...)
	} else {
		d.removeTables(written)
	}
	d.leftovers.mu.Lock()
	d.leftovers.uncertain = append(d.leftovers.uncertain, settled...)
	d.leftovers.mu.Unlock()
	return err
}

// takeUncertain returns the tables of failed edits that may be in force, and forgets them:
// once a later edit is in force, they are not needed.
func (d *DB) takeUncertain() []*manifest.FileMeta {
	d.leftovers.mu.Lock()
	defer d.leftovers.mu.Unlock()
	tables := d.leftovers.uncertain
	d.leftovers.uncertain = nil
	return tables
}

func (d *DB) removeTables(tables []*manifest.FileMeta) {
	for _, f := range tables {
		d.files.Remove(d.files.File(base.FileTable, f.Num))
	}
}
