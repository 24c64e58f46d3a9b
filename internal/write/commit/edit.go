package commit

import (
	"slices"

	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/internal/read/lookup"
)

// ApplyEdit records edit in the MANIFEST and makes the resulting version current. also, if not nil, changes the read
// state at that moment, as the function of Install. A MANIFEST that cannot be written ends the writes, unless the disk
// is full: then the next edit begins a new one. written are the tables that were written for this edit; after an error
// they are removed as soon as it is certain that the edit is not in force.
func (c *Committer) ApplyEdit(edit *manifest.Edit, written []*version.FileMeta, also func(*lookup.State)) error {
	s, dir := &c.store, &c.o.Dir
	if err := s.Tables.CountRefs(s.Set.Current(), edit, dir.Logger); err != nil {
		dir.RemoveTables(written)
		return err
	}
	// Before Apply: nothing is certain yet about an edit that fails after this one.
	settled := s.Obsolete.TakeUncertain()
	err := s.Set.Apply(edit, func(v *version.Version) {
		c.Install(func(s *lookup.State) {
			s.Version = v
			if also != nil {
				also(s)
			}
		})
	})
	if err == nil {
		dir.RemoveTables(settled)
		dir.RemoveTables(notAdded(edit, written))
		return nil
	}
	if s.Set.Failed() {
		c.Fail(err)
	}
	if manifest.IsUncertain(err) {
		settled = append(settled, written...)
	} else {
		dir.RemoveTables(written)
	}
	s.Obsolete.AddUncertain(settled...)
	return err
}

// notAdded returns those of the value tables written for an edit that the set took out of it, because nothing refers to
// them.
func notAdded(edit *manifest.Edit, written []*version.FileMeta) []*version.FileMeta {
	var out []*version.FileMeta
	for _, f := range written {
		if f.Values && !slices.ContainsFunc(edit.Added, func(a version.LevelFile) bool { return a.File == f }) {
			out = append(out, f)
		}
	}
	return out
}
