package scan

// Reads is what a transaction has read.
type Reads interface {
	// AddRange adds the keys from lower to upper, which the cursor has visited: it has no others there. A nil bound
	// means none. closed says that upper belongs to them. It copies the bounds.
	AddRange(lower, upper []byte, closed bool)
	// AddEnd adds the time at which a value that was shown expires, expiry.Never for none.
	AddEnd(ends uint64)
}

// Record makes c record in reads what it visits from now on.
func (c *Cursor) Record(reads Reads) {
	c.walk = &walk{reads: reads, lower: c.lower, upper: c.upper}
}

// Forget ends the recording. The present walk is lost.
func (c *Cursor) Forget() { c.walk = nil }

// beginWalk records that a walk begins at from, or at the end of the bounds if it is nil.
func (c *Cursor) beginWalk(forward bool, from []byte, closed bool) {
	if c.walk != nil {
		c.walk.begin(forward, from, closed)
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
		c.walk.end(c.shown)
	} else {
		c.walk.end(nil)
	}
}

// turnWalk ends the present walk at the key shown, from which the cursor turns back.
func (c *Cursor) turnWalk(forward bool) {
	if c.walk != nil {
		c.walk.end(c.shown)
		c.walk.begin(forward, c.shown, true)
	}
}

// walk records what a cursor visits. The cursor reports where it begins and where it leaves off, not each step.
type walk struct {
	reads        Reads
	lower, upper []byte // the cursor's bounds; nil: none

	under   bool
	forward bool
	from    []byte // where the walk began; nil: at the end of the bounds
	closed  bool   // from belongs to it
}

// begin starts a walk forward from the first key at or after from, or backward from the last key
// before from; with closed, backward from from itself. A nil from means the bound.
func (w *walk) begin(forward bool, from []byte, closed bool) {
	w.under, w.forward, w.closed = true, forward, closed
	if from == nil {
		w.from = nil
		return
	}
	w.from = append(w.from[:0], from...)
	if w.from == nil {
		w.from = []byte{}
	}
}

// end adds the present walk to the reads, if there is one. It has come to key at, or to its end if at is nil.
func (w *walk) end(at []byte) {
	if !w.under {
		return
	}
	w.under = false
	lower, upper, closed := w.from, at, true
	switch {
	case w.forward && w.from == nil:
		lower = w.lower
	case !w.forward && w.from == nil:
		lower, upper, closed = at, w.upper, false
	case !w.forward:
		lower, upper, closed = at, w.from, w.closed
	}
	if at == nil && w.forward {
		upper, closed = w.upper, false
	} else if at == nil {
		lower = w.lower
	}
	w.reads.AddRange(lower, upper, closed)
}
