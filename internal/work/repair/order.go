package repair

import (
	"github.com/sievedb/sievedb/internal/base/errors"
)

// refuseOtherOrder returns an error if another comparer seems to have ordered the tables: no MANIFEST names the
// comparer, and a quarter or more of the blocks with matching checksums are not in order. Rewriting them would lose
// entries, and a comparer is not known by its order. Damage under a matching checksum is rare, so fewer blocks
// do not keep the others from being repaired.
func (r *Repairer) refuseOtherOrder() error {
	if r.manifest.comparerKnown {
		return nil
	}
	blocks, disordered, name := uint64(0), uint64(0), ""
	for _, t := range r.tables {
		blocks += max(t.line.Blocks, t.disordered)
		disordered += t.disordered
		if t.disordered > 0 {
			name = t.name
		}
	}
	if disordered == 0 || 4*disordered < blocks {
		return nil
	}
	return errors.Newf("no MANIFEST names the comparer, and in %d of %d undamaged blocks of the tables (of %s, for example) the keys are "+
		"not in the order of %q: the database has another comparer; nothing was changed; pass that comparer in Options.Comparer, "+
		"or, if %[4]q is right, move these tables elsewhere", disordered, blocks, name, r.cmp.Name)
}
