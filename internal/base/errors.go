package base

import (
	"fmt"

	"github.com/sievedb/sievedb"
	"github.com/sievedb/sievedb/internal/errors"
)

// The sentinels of the public API, re-exported by package db. Test for them
// with errors.Is.
var (
	// ErrNotFound says that a key has no value. It is returned bare: wrapping
	// would capture a stack on the very path that filters make fast.
	ErrNotFound = errors.Sentinel("sievedb: not found")
	// ErrCorruption is the public one: what every CorruptionError is.
	ErrCorruption = sievedb.ErrCorruption
	// ErrClosed says that the database, iterator or snapshot was closed.
	ErrClosed = errors.Sentinel("sievedb: closed")
	// ErrReadOnly refuses a write: the database was opened read-only, or an
	// earlier failure ended its writes.
	ErrReadOnly = errors.Sentinel("sievedb: read-only")
	// ErrNoSpace says that the disk is full. Nothing acknowledged is lost, and
	// writes go on once there is space, unless the error is ErrReadOnly as well.
	ErrNoSpace = errors.Sentinel("sievedb: no space left on the disk")
	// ErrInListener refuses a call from a function of the event listener that would wait
	// for the goroutine that makes it.
	ErrInListener = errors.Sentinel("sievedb: called from a function of Options.EventListener, which the store waits for; call it from another goroutine, and do not wait for that")
	// ErrForeign says that the directory or file is another storage engine's.
	ErrForeign = errors.Sentinel("sievedb: another engine's database")
	// ErrLocked says that another process, or this one, has the directory open.
	ErrLocked = errors.Sentinel("sievedb: locked")
	// ErrTooLarge refuses a write of a key, a value or a batch above the limits. The error
	// that wraps it names the limit and the size found.
	ErrTooLarge = errors.Sentinel("sievedb: too large")
)

// CorruptionError is the public one.
type CorruptionError = sievedb.CorruptionError

// Corruptf makes a CorruptionError that does not know its file yet. A decoder
// of bare bytes passes the offset within them, or -1; its caller corrects it
// with InFile.
func Corruptf(part string, offset int64, format string, args ...any) error {
	return &CorruptionError{Part: part, Offset: offset, Detail: fmt.Sprintf(format, args...)}
}

// InFile says where err happened. A CorruptionError without a file gets this
// one, and the offset as well where it had none; any other error is wrapped
// with the file's name. Nil stays nil.
func InFile(err error, file string, offset int64) error {
	if err == nil {
		return nil
	}
	if c, ok := err.(*CorruptionError); ok {
		if c.File != "" {
			return err
		}
		located := *c
		located.File = file
		if located.Offset < 0 {
			located.Offset = offset
		}
		return &located
	}
	return errors.Wrapf(err, "%s", file)
}
