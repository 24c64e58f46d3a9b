package base

import (
	"fmt"
	"reflect"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/sievedb/sievedb"
)

// PanicError is sievedb.PanicError.
type PanicError = sievedb.PanicError

// NewPanicError makes the error for a deferred function that recovered value. cmp may be nil.
func NewPanicError(cmp *Comparer, during string, value any) *PanicError {
	e := &PanicError{During: during, Value: value, Stack: debug.Stack(), Place: "an unknown place"}
	var pcs [64]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	ours := comparerFunctions(cmp)
	for panicking := false; ; {
		f, more := frames.Next()
		switch {
		case f.Function == "runtime.gopanic" || f.Function == "runtime.Goexit":
			panicking = true
		case panicking && !strings.HasPrefix(f.Function, "runtime."):
			e.Place = fmt.Sprintf("%s, %s:%d", f.Function, f.File, f.Line)
			panicking = false
		}
		if ours[f.Function] {
			e.Comparer = cmp.Name
		}
		if !more {
			return e
		}
	}
}

// comparerFunctions returns the names, as in a stack trace, of the functions of a user's comparer.
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

// Catch calls f and returns its error, or a *PanicError if it panics.
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
