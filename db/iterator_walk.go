package db

import "github.com/sievedb/sievedb/internal/txn"

// The hooks by which an iterator of a transaction records what it reads; see txn.Walk.

// beginWalk records that a walk begins at from, or at the end of the bounds if it is nil.
func (i *Iterator) beginWalk(forward bool, from []byte, closed bool) {
	if i.walk != nil {
		i.walk.Begin(forward, from, closed)
	}
}

// endWalk records where the present walk ends.
func (i *Iterator) endWalk() {
	if i == nil || i.walk == nil {
		return
	}
	if i.valid {
		i.walk.End(i.shown)
	} else {
		i.walk.End(nil)
	}
}

// turnWalk ends the present walk at the key shown, from which the iterator turns back.
func (i *Iterator) turnWalk(forward bool) {
	if i.walk != nil {
		i.walk.End(i.shown)
		i.walk.Begin(forward, i.shown, true)
	}
}

// hides reports whether an entry above the iterator's sequence number is not one of the
// transaction's own writes that it shows.
func (p *iterParts) hides(seq uint64) bool { return seq < txn.FirstSeq || seq > p.ownSeq }
