package repair

import (
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
)

// order judges whether another comparer ordered the tables. No damage of the disk puts keys in another order under
// matching checksums. A bit of the memory that flips before a block is written can, but it moves at most the keys up to
// the next restart point, which share a prefix: the keys around them are in order. The order is another one if longer
// stretches on both sides of a step contradict each other, or if steps are frequent.
type order struct {
	entries, steps uint64 // steps are keys that sort before the previous one of their table
	stretches      bool   // there is a step between two stretches
	table          string // with a step

	of    *foundTable     // the keys below are from this table
	last  [stretch][]byte // the last keys, in a ring
	count int             // of keys of the table
	pivot []byte          // the last key of a stretch before a step; nil if there is none, or if it proved nothing
	below int             // how many keys after the step sort before pivot
}

// stretch is above the usual distance of restart points.
const stretch = 17

// add adds the next user key of a table.
func (o *order) add(c *base.Comparer, user []byte, t *foundTable) {
	if len(user) > 64<<10 {
		return // the ring would be large
	}
	if o.of != t {
		o.of, o.count, o.pivot = t, 0, nil
	}
	o.entries++
	at := o.count % stretch
	if o.count > 0 {
		last := o.last[(o.count-1)%stretch]
		step := c.Compare(last, user) > 0
		o.note(t, step)
		if step && o.count >= stretch && c.Compare(o.last[at], user) > 0 { // the oldest key in the ring
			o.pivot, o.below = append([]byte{}, last...), 0
		}
	}
	if o.pivot != nil && c.Compare(user, o.pivot) < 0 {
		o.below++
		o.stretches = o.stretches || o.below == stretch
	} else {
		o.pivot = nil
	}
	o.last[at] = append(o.last[at][:0], user...)
	o.count++
}

// note notes a step, if there is one.
func (o *order) note(t *foundTable, step bool) {
	if step {
		o.steps++
		o.table = t.name
	}
}

// refuseOtherOrder returns an error if another comparer seems to have ordered the tables, unless a MANIFEST of SieveDB
// names the comparer: other programs' repairs write the name that they were given. Rewriting the tables would order
// them by the wrong comparer, and lose entries; and a comparer is not known by its order. Few steps do not keep
// the other entries from being repaired.
func (r *Repairer) refuseOtherOrder() error {
	o := &r.order
	if r.manifest.comparerKnown || o.steps == 0 || !o.stretches && 100*o.steps < o.entries {
		return nil
	}
	return errors.Newf("%d of %d entries of the tables (of %s, for example) are not in the order of %q, although their checksums match: "+
		"the database has another comparer; nothing was changed; pass that comparer in Options.Comparer, without a MANIFEST that names "+
		"%[4]q, or, if %[4]q is right, move these tables elsewhere", o.steps, o.entries, o.table, r.cmp.Name)
}
