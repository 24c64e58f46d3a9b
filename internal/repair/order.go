package repair

import (
	"github.com/sievedb/sievedb/internal/errors"
)

// refuseOtherOrder returns an error if another comparer seems to have ordered the tables: no MANIFEST names the
// comparer, and in half of the tables or more, blocks with matching checksums are not in order. Rewriting
// them would lose entries, and a comparer is not known by its order.
func (r *Repairer) refuseOtherOrder() error {
	if r.manifest.comparerKnown {
		return nil
	}
	read, disordered, name := 0, 0, ""
	for _, t := range r.tables {
		if t.entries > 0 || t.disordered {
			read++
		}
		if t.disordered {
			disordered++
			name = t.name
		}
	}
	if disordered == 0 || 2*disordered < read {
		return nil
	}
	return errors.Newf("no MANIFEST names the comparer, and %d of %d tables (%s among them) have undamaged blocks whose keys are not in the "+
		"order of %q: the database has another comparer; nothing was changed; pass that comparer in Options.Comparer, or, "+
		"if %[4]q is right, move these tables elsewhere", disordered, read, name, r.cmp.Name)
}
