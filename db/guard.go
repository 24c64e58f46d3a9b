package db

import "context"

// need is what a call needs of the store, beyond that it is open.
type need uint8

const (
	// toWrite: the store was not opened read-only. Writes that have ended later are refused by the commit path.
	toWrite need = 1 << iota
	// toWait: it is not from a function of the EventListener, which the call would wait for.
	toWait
)

// guard returns why a call of a method of the DB is refused, in this order: ErrClosed, also of a nil DB, ErrReadOnly,
// ErrInListener. Reads have the first check only, and the methods for single writes have all three in place, since a
// call would cost them.
func (d *DB) guard(n need) error {
	switch {
	case d == nil || d.closed.Load():
		return ErrClosed
	case n&toWrite != 0 && d.opts.ReadOnly:
		return ErrReadOnly
	case n&toWait != 0 && d.listenerCalls.InThisGoroutine():
		return ErrInListener
	}
	return nil
}

// guardUnder is guard for a method with a context, which must not be nil.
func (d *DB) guardUnder(ctx context.Context, method string, n need) error {
	err := d.guard(n)
	if err != ErrClosed && ctx == nil {
		return errNilContext(method)
	}
	return err
}
