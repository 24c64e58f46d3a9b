//go:build !(plan9 || js || wasip1 || sievedb_stderrors)

package errors

import "github.com/cockroachdb/errors"

// New returns an error with the given text and a stack trace.
func New(text string) error { return errors.NewWithDepth(1, text) }

// Newf is New with a format.
func Newf(format string, args ...any) error { return errors.NewWithDepthf(1, format, args...) }

// Wrap puts "text: " before the text of err and adds a stack trace. It returns nil if err is nil.
func Wrap(err error, text string) error { return errors.WrapWithDepth(1, err, text) }

// Wrapf is Wrap with a format.
func Wrapf(err error, format string, args ...any) error {
	return errors.WrapWithDepthf(1, err, format, args...)
}

// CombineErrors returns err with other attached, which %+v prints after it. If err is nil, it
// returns other. The result matches only err, because other came later, often as a consequence.
func CombineErrors(err, other error) error { return errors.CombineErrors(err, other) }
