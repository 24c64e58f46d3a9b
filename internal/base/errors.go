package base

import (
	"fmt"
	"strings"

	"github.com/sievedb/sievedb"
	"github.com/sievedb/sievedb/internal/base/errors"
)

// The sentinel errors of the public API, re-exported by package db. Test for them with errors.Is.
var (
	// ErrNotFound means that a key has no value. It is returned unwrapped: wrapping would
	// capture a stack on the path that filters make fast.
	ErrNotFound = errors.Sentinel("sievedb: not found")
	// ErrCorruption is sievedb.ErrCorruption, which every CorruptionError matches.
	ErrCorruption = sievedb.ErrCorruption
	// ErrNewer is sievedb.ErrNewer, which every NewerError matches.
	ErrNewer = sievedb.ErrNewer
	// ErrClosed means that the database, iterator or snapshot was closed.
	ErrClosed = errors.Sentinel("sievedb: closed")
	// ErrReadOnly means that a write was refused, because the database was opened read-only
	// or an earlier failure disabled writes.
	ErrReadOnly = errors.Sentinel("sievedb: read-only")
	// ErrNoSpace means that the disk is full. No acknowledged write is lost, and writes
	// resume once there is space, unless the error also matches ErrReadOnly.
	ErrNoSpace = errors.Sentinel("sievedb: no space left on the disk")
	// ErrInListener means that an event callback made a call that would wait for the goroutine that runs the callback.
	ErrInListener = errors.Sentinel("sievedb: called from a callback of Options.EventListener, " +
		"for which the store waits; call it from another goroutine, and do not wait for that goroutine")
	// ErrForeign means that the directory or file belongs to another storage engine.
	ErrForeign = errors.Sentinel("sievedb: another engine's database")
	// ErrLocked means that another process, or this one, has the directory open.
	ErrLocked = errors.Sentinel("sievedb: locked")
	// ErrTooLarge means that a key, a value or a batch exceeds a limit. The error that wraps
	// it has the limit and the actual size.
	ErrTooLarge = errors.Sentinel("sievedb: too large")
	// ErrConflict means that another commit changed something that a transaction had read.
	ErrConflict = errors.Sentinel("sievedb: conflict: another commit changed what the transaction had read; run it again")
)

// CorruptionError is sievedb.CorruptionError.
type CorruptionError = sievedb.CorruptionError

// Corruptf returns a CorruptionError without a file. A decoder of bytes passes the offset within
// them, or -1; its caller adds the file with InFile.
func Corruptf(part string, offset int64, format string, args ...any) error {
	return &CorruptionError{Part: part, Offset: offset, Detail: fmt.Sprintf(format, args...)}
}

// NewerError is sievedb.NewerError.
type NewerError = sievedb.NewerError

// Newerf returns a NewerError without a file. Offsets are as for Corruptf. The bytes must have a
// valid checksum: otherwise they are damaged, whatever they look like.
func Newerf(part string, offset int64, format string, args ...any) error {
	return &NewerError{Part: part, Offset: offset, Found: fmt.Sprintf(format, args...)}
}

// IsUnreadable reports whether err is about bytes that this version cannot read, because they are
// damaged or because a newer version or another engine wrote them. Reading them again would fail again.
func IsUnreadable(err error) bool {
	return errors.Is(err, ErrCorruption) || errors.Is(err, ErrNewer) || errors.Is(err, ErrForeign)
}

// WrongComparer is in errors about keys that are in another order than that of the comparer.
const WrongComparer = "another comparer may have ordered the keys"

// OtherOrder is the end of such an error. Tools that repair directories without the comparer write MANIFESTs that name
// the one they have.
func OtherOrder(c *Comparer) string {
	return fmt.Sprintf(" by comparer %q: %s, which a repair tool did not have; do not repair by this one: move CURRENT and the "+
		"MANIFESTs elsewhere, and call Repair with the right one", c.Name, WrongComparer)
}

// InFile adds the file to err. A CorruptionError or NewerError without a file gets file, and offset
// if it has none; any other error is wrapped with the file's name. It returns nil if err is nil.
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
	if n, ok := err.(*NewerError); ok {
		if n.File != "" {
			return err
		}
		located := *n
		located.File = file
		if located.Offset < 0 {
			located.Offset = offset
		}
		return &located
	}
	if errors.Is(err, ErrForeign) && strings.Contains(err.Error(), file) {
		return err
	}
	return errors.Wrapf(err, "%s", file)
}
