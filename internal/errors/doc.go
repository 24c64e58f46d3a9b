// Package errors is the only place that imports an error library: the rest of the store
// makes, wraps and combines its errors here.
//
// Two implementations have the same functions. The usual one is cockroachdb/errors, whose
// errors carry the stack of the place that made them; fmt prints it with %+v. Where that
// library does not build or weighs too much (plan9, js, wasip1), or with the build tag
// sievedb_stderrors, the errors are those of the standard library, without stacks: a program
// that opens a store is then about half as large.
//
// Is, As, Unwrap and Join are the standard library's in both, so that no error of the store
// depends on which one was built.
package errors

import "errors"

// ErrUnsupported says that the system cannot do what was asked.
var ErrUnsupported = errors.ErrUnsupported

// Sentinel returns an error to compare others with. It has no stack: it is made before
// anything happens.
func Sentinel(text string) error { return errors.New(text) }

// Is reports whether err, or an error that it wraps, is target.
func Is(err, target error) bool { return errors.Is(err, target) }

// As finds the first error in err's tree that target can hold, and sets target to it.
func As(err error, target any) bool { return errors.As(err, target) }

// Join returns an error that is each of errs that is not nil, or nil if all are.
func Join(errs ...error) error { return errors.Join(errs...) }
