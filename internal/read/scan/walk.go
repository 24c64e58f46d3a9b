package scan

import "github.com/sievedb/sievedb/internal/write/txn"

// The hooks by which the cursor of a transaction records what it reads; see txn.Walk.

// Record makes c record in reads what it visits from now on.
func (c *Cursor) Record(reads *txn.Reads) {
	c.walk = &txn.Walk{Reads: reads, Lower: c.lower, Upper: c.upper}
}

// Forget ends the recording. The present walk is lost.
func (c *Cursor) Forget() { c.walk = nil }

// beginWalk records that a walk begins at from, or at the end of the bounds if it is nil.
func (c *Cursor) beginWalk(forward bool, from []byte, closed bool) {
	if c.walk != nil {
		c.walk.Begin(forward, from, closed)
	}
}

// EndWalk records where the present walk ends.
func (c *Cursor) EndWalk() {
	if c.walk != nil {
		c.recordEnd()
	}
}

// recordEnd is EndWalk of a cursor that records.
func (c *Cursor) recordEnd() {
	if c.valid {
		c.walk.End(c.shown)
	} else {
		c.walk.End(nil)
	}
}

// turnWalk ends the present walk at the key shown, from which the cursor turns back.
func (c *Cursor) turnWalk(forward bool) {
	if c.walk != nil {
		c.walk.End(c.shown)
		c.walk.Begin(forward, c.shown, true)
	}
}
