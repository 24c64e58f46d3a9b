package db

import (
	"github.com/sievedb/sievedb"
	"github.com/sievedb/sievedb/internal/base"
)

// PanicError is the error for a panic of code that Options bring in (Comparer, filter policies, Compaction.Filter,
// FS, EventListener, Logger), or of the store itself, if it cannot continue to a caller as a panic. Use errors.As to
// get it. Fields: During, Value, Stack, Comparer, Place.
type PanicError = sievedb.PanicError

// guard is base.Catch for work on which the store depends: a panic ends the writes, because
// its partial result is unknown. d.mu is not held.
func (d *DB) guard(during string, f func() error) (err error) {
	returned := false
	defer func() {
		if !returned {
			err = d.panicked(during, recover())
		}
	}()
	err = f()
	returned = true
	return err
}

// panicked ends the writes because of a panic with value. It is for deferred functions.
func (d *DB) panicked(during string, value any) error {
	err := base.NewPanicError(d.cmp, during, value)
	d.endWrites(err)
	return err
}

// leaderPanicked ends a leadership that panicked. The other writers of the group get the error.
func (d *DB) leaderPanicked(value any) {
	_ = d.panicked("a write", value)
	q := &d.commit
	n := len(q.group)
	for i, r := range q.group {
		if r.err = d.writeErr(); i > 0 {
			r.wake <- false
		}
	}
	clear(q.group)
	q.group = q.group[:0]
	q.stepDown(n)
	if value != nil { // nil: the goroutine ends, without a panic
		panic(value)
	}
}
