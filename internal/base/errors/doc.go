// Package errors is the only package that imports an error library: the other packages of the
// store make, wrap and combine their errors here.
//
// There are two implementations of the same functions. The default has errors with the stack trace of their origin,
// which fmt prints with %+v by means of cockroachdb/errors. Where that library does not build or is too large (plan9,
// js, wasip1), or with the build tag sievedb_stderrors, the errors are those of the standard library, without stack
// traces. A program that opens a store is then about a quarter smaller.
//
// The default imports only errbase and secondary of that library. Its front package and withstack
// import sentry-go, and with it net/http and crypto/tls, which no program that opens a store needs.
//
// In both implementations Is, As, Unwrap and Join are the standard library's, so that matching
// errors does not depend on the implementation.
package errors

import (
	"errors"
	"fmt"
	"io/fs"
)

// ErrUnsupported means that the system does not support the operation.
var ErrUnsupported = errors.ErrUnsupported

// Sentinel returns an error for comparisons with Is. It has no stack trace, because package initialization makes it.
func Sentinel(text string) error { return errors.New(text) }

// Is reports whether err, or an error that it wraps, is target.
func Is(err, target error) bool { return errors.Is(err, target) }

// As finds the first error in err's tree that can be assigned to target, and assigns it.
func As(err error, target any) bool { return errors.As(err, target) }

// Join returns an error that matches each non-nil argument, or nil if all are nil.
func Join(errs ...error) error { return errors.Join(errs...) }

// NotExist returns an error, without a stack trace, that matches fs.ErrNotExist and says in its own words what is
// missing: "file does not exist" behind them would name something else.
func NotExist(format string, args ...any) error { return notExist(fmt.Sprintf(format, args...)) }

type notExist string

func (e notExist) Error() string { return string(e) }

// Is implements errors.Is.
func (e notExist) Is(target error) bool { return target == fs.ErrNotExist }
