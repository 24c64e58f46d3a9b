//go:build !(plan9 || js || wasip1 || sievedb_stderrors)

package errors

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/cockroachdb/errors/errbase"
	"github.com/cockroachdb/errors/secondary"
)

// The front package of cockroachdb/errors imports sentry-go and with it net/http and crypto/tls, which would be half of
// a small program. Of that library only errbase and secondary are used, which import none of these; the stack trace is
// captured here, because the package that does it, withstack, imports sentry-go too.

// New returns an error with the given text and a stack trace.
func New(text string) error { return &traced{cause: errors.New(text), stack: callers()} }

// Newf is New with a format.
func Newf(format string, args ...any) error {
	return &traced{cause: fmt.Errorf(format, args...), stack: callers()}
}

// Wrap puts "text: " before the text of err and adds a stack trace. It returns nil if err is nil.
func Wrap(err error, text string) error {
	if err == nil {
		return nil
	}
	return &traced{text: text, cause: err, stack: callers()}
}

// Wrapf is Wrap with a format.
func Wrapf(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return &traced{text: fmt.Sprintf(format, args...), cause: err, stack: callers()}
}

// CombineErrors returns err with other attached, which %+v prints after it. If err is nil, it
// returns other. The result matches only err, because other came later, often as a consequence.
func CombineErrors(err, other error) error { return secondary.CombineErrors(err, other) }

// traced is an error with the stack of the call that made it, and with the text that Wrap puts before its cause's.
type traced struct {
	text  string // "" for New
	cause error
	stack []uintptr
}

func (e *traced) Error() string {
	if e.text == "" {
		return e.cause.Error()
	}
	return e.text + ": " + e.cause.Error()
}

func (e *traced) Unwrap() error { return e.cause }

// Format implements fmt.Formatter: %+v prints the whole chain with its stacks, each frame once.
func (e *traced) Format(s fmt.State, verb rune) { errbase.FormatError(e, s, verb) }

// FormatError implements errbase.Formatter. It prints the text of this error only, and returns the cause, which
// errbase prints after it. errbase finds the stack through StackTrace.
func (e *traced) FormatError(p errbase.Printer) error {
	if e.text != "" {
		p.Print(e.text)
	}
	return e.cause
}

// StackTrace implements errbase.StackTraceProvider, so that programs which report errors of cockroachdb/errors or
// pkg/errors find the stack of ours.
func (e *traced) StackTrace() errbase.StackTrace {
	trace := make(errbase.StackTrace, len(e.stack))
	for i, pc := range e.stack {
		trace[i] = errbase.StackFrame(pc)
	}
	return trace
}

// callers returns the stack above the function of this package that called it, at most 32 frames as cockroachdb/errors.
func callers() []uintptr {
	var pcs [32]uintptr
	n := runtime.Callers(3, pcs[:])
	return append([]uintptr(nil), pcs[:n]...)
}
