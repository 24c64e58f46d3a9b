// Package errors is the only package that imports an error library: the other packages of the
// store make, wrap and combine their errors here.
//
// There are two implementations of the same functions. The default uses cockroachdb/errors, whose
// errors have the stack trace of their origin; fmt prints it with %+v. Where that library does not
// build or is too large (plan9, js, wasip1), or with the build tag sievedb_stderrors, the errors
// are those of the standard library, without stack traces. A program that opens a store is then
// about half as large.
//
// In both implementations Is, As, Unwrap and Join are the standard library's, so that matching
// errors does not depend on the implementation.
package errors

import "errors"

// ErrUnsupported means that the system does not support the operation.
var ErrUnsupported = errors.ErrUnsupported

// Sentinel returns an error for comparisons with Is. It has no stack trace, because package
// initialization makes it.
func Sentinel(text string) error { return errors.New(text) }

// Is reports whether err, or an error that it wraps, is target.
func Is(err, target error) bool { return errors.Is(err, target) }

// As finds the first error in err's tree that can be assigned to target, and assigns it.
func As(err error, target any) bool { return errors.As(err, target) }

// Join returns an error that matches each non-nil argument, or nil if all are nil.
func Join(errs ...error) error { return errors.Join(errs...) }
