package sievedb

import (
	"errors"
	"fmt"
)

// ErrCorruption is what every CorruptionError is, and what errors.Is finds in each error that one caused.
var ErrCorruption = errors.New("sievedb: corruption")

// CorruptionError says which bytes of which file are not what the format asks
// for. errors.Is(err, ErrCorruption) holds for it.
type CorruptionError struct {
	// File is the file's path, empty while the fault is still inside a decoder that knows only bytes.
	File string
	// Part names the piece of the format: "footer", "data block", "log record".
	Part string
	// Offset is where Part begins in the file, in bytes; -1 where it is unknown.
	Offset int64
	// Detail says what was wrong, with the wanted and the found value. It never holds bytes of keys or values.
	Detail string
}

// Error implements error.
func (e *CorruptionError) Error() string {
	s := "sievedb: corruption"
	if e.File != "" {
		s += " in " + e.File
	}
	s += ": " + e.Part
	if e.Offset >= 0 {
		s += fmt.Sprintf(" at offset %d", e.Offset)
	}
	return s + ": " + e.Detail
}

// Is makes errors.Is(e, ErrCorruption) true.
func (e *CorruptionError) Is(target error) bool { return target == ErrCorruption }

// ErrNewer is what every NewerError is, and what errors.Is finds in each error that one caused.
var ErrNewer = errors.New("sievedb: written by a newer version")

// NewerError says which part of which file this version does not know, although the file is whole: a newer version
// wrote it. The database must be opened with that version or a later one; Repair refuses it, since it would remove what
// it cannot read. errors.Is(err, ErrNewer) holds for it, and errors.Is(err, ErrCorruption) does not.
type NewerError struct {
	// File is the file's path, empty while the error is still inside a decoder that knows only bytes.
	File string
	// Part names the piece of the format: "version edit", "data block", "log record".
	Part string
	// Offset is where Part begins in the file, in bytes; -1 where it is unknown.
	Offset int64
	// Found says what is not known, and what is. It never holds bytes of keys or values.
	Found string
}

// Error implements error.
func (e *NewerError) Error() string {
	s := "sievedb: written by a newer version"
	if e.File != "" {
		s += ": " + e.File
	}
	s += ": " + e.Part
	if e.Offset >= 0 {
		s += fmt.Sprintf(" at offset %d", e.Offset)
	}
	return s + ": " + e.Found + "; use the version that wrote it, or a later one"
}

// Is makes errors.Is(e, ErrNewer) true.
func (e *NewerError) Is(target error) bool { return target == ErrNewer }

// PanicError is the error for a panic of code that Options bring in (Comparer, filter policies, FS, EventListener,
// Logger), or of the store itself, if it cannot continue to a caller as a panic. Use errors.As to get it.
//
// A panic in a call continues to its caller: from Get, an iterator, Put or Apply. If it comes from a write, or from a
// goroutine of the store, writes end: every later write returns an error that is ErrReadOnly and contains the
// PanicError, and reads continue. Of writes that are committed together, one panics and the others return that error.
// Compact and UpgradeFilters, which share their work with goroutines of the store, return the error; so do Open, Repair
// and Close, which release the directory. After an error from a write, that write may or may not be present when the
// database is opened again.
type PanicError struct {
	// During says what the store was doing.
	During string
	// Value is the argument of panic; nil if the code ended its goroutine
	// (runtime.Goexit), as FailNow of package testing does.
	Value any
	// Stack is the stack trace of the goroutine, as debug.Stack formats it.
	Stack []byte
	// Comparer is the name of the comparer if that panicked, "" otherwise.
	Comparer string
	// Place is where the panic was: function, file and line.
	Place string
}

// Error says what panicked, where and why, without the stack.
func (e *PanicError) Error() string {
	what := "panic"
	if e.Comparer != "" {
		what = fmt.Sprintf("the comparer %q panicked", e.Comparer)
	}
	why := "runtime.Goexit was called"
	if e.Value != nil {
		why = fmt.Sprint(e.Value)
	}
	return fmt.Sprintf("sievedb: %s during %s: %s (at %s)", what, e.During, why, e.Place)
}
