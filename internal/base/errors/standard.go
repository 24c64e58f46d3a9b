//go:build plan9 || js || wasip1 || sievedb_stderrors

package errors

import (
	"errors"
	"fmt"
)

// New returns an error with the given text.
func New(text string) error { return errors.New(text) }

// Newf is New with a format.
func Newf(format string, args ...any) error { return fmt.Errorf(format, args...) }

// Wrap puts "text: " before the text of err. It returns nil if err is nil.
func Wrap(err error, text string) error {
	if err == nil {
		return nil
	}
	return &wrapped{text: text, err: err}
}

// Wrapf is Wrap with a format.
func Wrapf(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return &wrapped{text: fmt.Sprintf(format, args...), err: err}
}

type wrapped struct {
	text string
	err  error
}

func (w *wrapped) Error() string { return w.text + ": " + w.err.Error() }

func (w *wrapped) Unwrap() error { return w.err }

// Format implements fmt.Formatter: %+v also prints what CombineErrors added to the cause.
func (w *wrapped) Format(s fmt.State, verb rune) { format(s, verb, w, "%s: %+v", w.text, w.err) }

// format prints err; with %+v it prints details instead.
func format(s fmt.State, verb rune, err error, details string, args ...any) {
	switch {
	case verb == 'v' && s.Flag('+'):
		fmt.Fprintf(s, details, args...)
	case verb == 'q':
		fmt.Fprintf(s, "%q", err.Error())
	default:
		fmt.Fprint(s, err.Error())
	}
}

// CombineErrors returns err with other attached, which %+v prints after it. If err is nil, it
// returns other. The result matches only err, because other came later, often as a consequence.
func CombineErrors(err, other error) error {
	switch {
	case err == nil:
		return other
	case other == nil:
		return err
	}
	return &combined{error: err, other: other}
}

type combined struct {
	error
	other error
}

func (c *combined) Unwrap() error { return c.error }

// Format implements fmt.Formatter.
func (c *combined) Format(s fmt.State, verb rune) {
	format(s, verb, c, "%+v\nand then: %+v", c.error, c.other)
}
