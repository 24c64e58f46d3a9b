package db

import (
	"fmt"
	"runtime"
	"sort"
	"strings"
	"sync"
)

// openedList knows the iterators and snapshots that are open, so that Close can
// name those that were forgotten: each of them keeps files and versions alive.
// Where each was opened is kept only with Options.TrackOpen, because walking a
// stack costs more than many a lookup.
type openedList struct {
	mu        sync.Mutex
	iterators int
	snapshots int
	tracked   map[any]string // the iterator or snapshot: what it is and where it was opened
}

// add notes x, an *Iterator or a *Snapshot.
func (l *openedList) add(x any, track bool) {
	var where string
	if track {
		where = fmt.Sprintf("%s opened at %s", kindOfOpened(x), caller())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count(x, +1)
	if track {
		if l.tracked == nil {
			l.tracked = map[any]string{}
		}
		l.tracked[x] = where
	}
}

func (l *openedList) remove(x any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count(x, -1)
	delete(l.tracked, x)
}

func (l *openedList) count(x any, n int) {
	if _, ok := x.(*Iterator); ok {
		l.iterators += n
	} else {
		l.snapshots += n
	}
}

func kindOfOpened(x any) string {
	if _, ok := x.(*Iterator); ok {
		return "iterator"
	}
	return "snapshot"
}

// counts returns how many are open.
func (l *openedList) counts() (iterators, snapshots int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.iterators, l.snapshots
}

// String lists what is open, "" for nothing.
func (l *openedList) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.iterators == 0 && l.snapshots == 0 {
		return ""
	}
	s := fmt.Sprintf("%d iterators and %d snapshots open", l.iterators, l.snapshots)
	var where []string
	for _, w := range l.tracked {
		where = append(where, w)
	}
	sort.Strings(where)
	if len(where) > 0 {
		s += ": " + strings.Join(where, "; ")
	}
	return s
}

// caller returns the file and line of the first frame outside this package's
// own functions.
func caller() string {
	var pcs [16]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs[:])])
	for {
		f, more := frames.Next()
		inside := strings.Contains(f.Function, "sievedb/db.(*DB)") || strings.Contains(f.Function, "sievedb/db.(*Snapshot)")
		if !inside || !more {
			return fmt.Sprintf("%s:%d", f.File, f.Line)
		}
	}
}
