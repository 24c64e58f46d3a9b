package counters

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
)

// Opened records the iterators and snapshots that are open, so that Close can name the forgotten ones: each of them
// keeps files and versions alive. The place of opening is recorded only with Options.TrackOpen, because walking a stack
// costs more than many lookups do.
type Opened struct {
	mu      sync.Mutex
	open    [numKinds]int
	tracked map[any]string // by iterator or snapshot: its kind and where it was opened
}

// Kind distinguishes the entries of an Opened, which counts each kind separately.
type Kind int

// The kinds.
const (
	Iterator Kind = iota
	Snapshot
	Transaction
	numKinds
)

func (k Kind) String() string { return [...]string{"iterator", "snapshot", "transaction"}[k] }

// Add records x, an iterator, a snapshot or a transaction that the caller's caller opens. If track is true,
// it also records where.
func (l *Opened) Add(x any, kind Kind, track bool) {
	var where string
	if track {
		where = fmt.Sprintf("%s opened at %s", kind, CallSite())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open[kind]++
	if track {
		if l.tracked == nil {
			l.tracked = map[any]string{}
		}
		l.tracked[x] = where
	}
}

// Remove forgets x, which Add recorded.
func (l *Opened) Remove(x any, kind Kind) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open[kind]--
	if l.tracked != nil { // even without a map, delete computes the hash of x
		delete(l.tracked, x)
	}
}

// Counts returns the numbers of open iterators, snapshots and transactions.
func (l *Opened) Counts() (iterators, snapshots, transactions int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open[Iterator], l.open[Snapshot], l.open[Transaction]
}

// String lists the open iterators, snapshots and transactions. It returns "" if there are none.
func (l *Opened) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var kinds []string
	for kind, n := range l.open {
		switch {
		case n == 1:
			kinds = append(kinds, fmt.Sprintf("1 %s", Kind(kind)))
		case n > 1:
			kinds = append(kinds, fmt.Sprintf("%d %ss", n, Kind(kind)))
		}
	}
	if len(kinds) == 0 {
		return ""
	}
	where := "Options.TrackOpen records where each was opened"
	if len(l.tracked) > 0 {
		where = strings.Join(slices.Sorted(maps.Values(l.tracked)), "; ")
	}
	return strings.Join(kinds, ", ") + " open: " + where
}

// openers begin the names of db's functions that open an iterator, a snapshot or a transaction.
var openers = []string{
	"sievedb/db.(*DB)", "sievedb/db.(*Snapshot)", "sievedb/db.(*Transaction)", "sievedb/db.(*Iterator)",
	"sievedb/db.(*Namespace)", "sievedb/db.namespaceReader", "sievedb/db.loop",
}

// CallSite returns the file and line of the first stack frame, starting with the caller's caller,
// that is not in one of the openers.
func CallSite() string {
	var pcs [16]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs[:])])
	for {
		f, more := frames.Next()
		inside := slices.ContainsFunc(openers, func(name string) bool { return strings.Contains(f.Function, name) })
		if !inside || !more {
			return fmt.Sprintf("%s:%d", f.File, f.Line)
		}
	}
}
