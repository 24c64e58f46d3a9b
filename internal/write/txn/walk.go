package txn

// Walk records in a set of reads what an iterator visits. The iterator reports where it begins
// and where it leaves off, not each step.
type Walk struct {
	Reads        *Reads
	Lower, Upper []byte // the iterator's bounds; nil: none

	under   bool
	forward bool
	from    []byte // where the walk began; nil: at the end of the bounds
	closed  bool   // from belongs to it
}

// Begin starts a walk forward from the first key at or after from, or backward from the last key
// before from; with closed, backward from from itself. A nil from means the bound.
func (w *Walk) Begin(forward bool, from []byte, closed bool) {
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

// End adds the present walk to the reads, if there is one. It has come to key at, or to its end
// if at is nil.
func (w *Walk) End(at []byte) {
	if !w.under {
		return
	}
	w.under = false
	a := Range{Lower: w.from, Upper: at, Closed: true}
	switch {
	case w.forward && w.from == nil:
		a.Lower = w.Lower
	case !w.forward && w.from == nil:
		a = Range{Lower: at, Upper: w.Upper}
	case !w.forward:
		a = Range{Lower: at, Upper: w.from, Closed: w.closed}
	}
	if at == nil && w.forward {
		a.Upper, a.Closed = w.Upper, false
	} else if at == nil {
		a.Lower = w.Lower
	}
	w.Reads.AddRange(a)
}
