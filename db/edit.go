package db

import (
	"path/filepath"
	"slices"
	"sync"

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

// applyEdit records edit in the MANIFEST and installs the resulting version. A MANIFEST that cannot be written ends the
// writes, unless the disk is full: then the next edit begins a new one. written are the tables that were written for
// this edit; after an error they are removed as soon as it is certain that the edit is not in force.
func (d *DB) applyEdit(edit *manifest.Edit, written []*manifest.FileMeta, also func(*lookup.State)) error {
	if err := d.countRefs(edit); err != nil {
		d.removeTables(written)
		return err
	}
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
		d.removeTables(notAdded(edit, written))
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

// notAdded returns those of the value tables written for an edit that the set took out of it, because nothing refers to
// them.
func notAdded(edit *manifest.Edit, written []*manifest.FileMeta) []*manifest.FileMeta {
	var out []*manifest.FileMeta
	for _, f := range written {
		if f.Values && !slices.ContainsFunc(edit.Added, func(a manifest.LevelFile) bool { return a.File == f }) {
			out = append(out, f)
		}
	}
	return out
}

// countRefs adds to edit what it changes of the values to which tables refer.
func (d *DB) countRefs(edit *manifest.Edit) error {
	return d.tables.CountRefs(d.set.Current(), edit, func(f *manifest.FileMeta, err error) {
		d.opts.Logger.Warn("a damaged table is removed; the values that it refers to stay until Repair", "table", f.Name(), "err", err)
	})
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
		d.files.Remove(filepath.Join(d.files.Path, f.Name()))
	}
}
