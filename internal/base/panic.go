package base

import (
	"fmt"
	"reflect"
	"runtime"
	"runtime/debug"
	"strings"
)

// PanicError is what a panic of the code that Options bring in (Comparer, filter
// policies, FS, EventListener, Logger), or of the store itself, becomes where it cannot
// go on to a caller as a panic. Use errors.As to get it.
//
// A panic in a call goes on to its caller: from Get, an iterator, Put or Apply. If it comes
// from a write, or from a goroutine of the store, writes end: every later one returns an
// error that is ErrReadOnly and holds the PanicError, and reads go on. Of writes
// that are committed together, one panics and the others return that error. Compact and
// UpgradeFilters, which share their work with goroutines of the store, return the error; so
// do Open, Repair and Close, which release the directory. After an error from a write
// it may or may not be there when the database is opened again.
type PanicError struct {
	// During says what the store did.
	During string
	// Value is what panic was called with; nil if the code ended its goroutine
	// (runtime.Goexit), as FailNow of package testing does.
	Value any
	// Stack is the stack trace of the goroutine, as debug.Stack formats it.
	Stack []byte

	comparer string // its name, if it panicked
	place    string // of the panic: function, file and line
}

// Error says what panicked, where and why, without the stack.
func (e *PanicError) Error() string {
	what := "panic"
	if e.comparer != "" {
		what = fmt.Sprintf("the comparer %q panicked", e.comparer)
	}
	why := "runtime.Goexit was called"
	if e.Value != nil {
		why = fmt.Sprint(e.Value)
	}
	return fmt.Sprintf("sievedb: %s during %s: %s (at %s)", what, e.During, why, e.place)
}

// NewPanicError is for the deferred function that recovered value. cmp may be nil.
func NewPanicError(cmp *Comparer, during string, value any) *PanicError {
	e := &PanicError{During: during, Value: value, Stack: debug.Stack(), place: "an unknown place"}
	var pcs [64]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	ours := comparerFunctions(cmp)
	for panicking := false; ; {
		f, more := frames.Next()
		switch {
		case f.Function == "runtime.gopanic" || f.Function == "runtime.Goexit":
			panicking = true
		case panicking && !strings.HasPrefix(f.Function, "runtime."):
			e.place = fmt.Sprintf("%s, %s:%d", f.Function, f.File, f.Line)
			panicking = false
		}
		if ours[f.Function] {
			e.comparer = cmp.Name
		}
		if !more {
			return e
		}
	}
}

// comparerFunctions returns the names of the functions of a user's comparer, as they
// stand in a stack.
func comparerFunctions(cmp *Comparer) map[string]bool {
	names := map[string]bool{}
	if cmp == nil || cmp.IsBytewise() {
		return names
	}
	for _, f := range []any{cmp.Compare, cmp.Separator, cmp.Successor} {
		if v := reflect.ValueOf(f); !v.IsNil() {
			names[strings.TrimSuffix(runtime.FuncForPC(v.Pointer()).Name(), "-fm")] = true // of a method value
		}
	}
	return names
}

// Catch calls f and returns its error, or a *PanicError.
func Catch(cmp *Comparer, during string, f func() error) (err error) {
	returned := false
	defer func() {
		if !returned {
			err = NewPanicError(cmp, during, recover())
		}
	}()
	err = f()
	returned = true
	return err
}
