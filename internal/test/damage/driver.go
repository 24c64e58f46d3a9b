package damage

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"runtime/debug"
	"sync"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/vfs"
)

// Store is the part of an open database that the driver uses.
type Store interface {
	// Get returns base.ErrNotFound for an absent key.
	Get(key []byte) ([]byte, error)
	NewIterator() (Iterator, error)
	Close() error
}

// Iterator is an iterator of a Store.
type Iterator interface {
	First() bool
	Last() bool
	Next() bool
	Prev() bool
	Key() []byte
	Value() []byte
	Err() error
	Close() error
}

// Pair is a key and its value.
type Pair struct{ Key, Value []byte }

// Class is the class of an outcome; see the package comment.
type Class int

// The classes, from best to worst.
const (
	Correct Class = iota
	Refused
	Unclear
	Silent
	Panic
	Hang
	Memory

	// NumClasses is the number of classes.
	NumClasses
)

// String returns the class as one word.
func (c Class) String() string {
	if c < 0 || c >= NumClasses {
		return fmt.Sprintf("Class(%d)", int(c))
	}
	return [NumClasses]string{"correct", "refused", "unclear", "SILENT", "PANIC", "HANG", "MEMORY"}[c]
}

// Outcome is the result of opening and reading one damaged image.
type Outcome struct {
	Class Class
	// Err is the first error, nil if there was none.
	Err error
	// Detail says what was wrong, for the classes from Silent on.
	Detail string
	// State is the index in Driver.States of the state that the database had.
	State int
	// Allocated is the total number of bytes allocated.
	Allocated uint64
}

// Driver opens damaged images and judges the entries that it reads.
type Driver struct {
	// Dir is the directory of the image.
	Dir string
	// Open opens the database in Dir.
	Open func(vfs.FS) (Store, error)
	// States are the states that the database may have, each sorted by key. The first is the
	// state of the undamaged database. All entries read from one image must be of one state.
	States [][]Pair
	// Absent are keys that no state has.
	Absent [][]byte
	// MaxOps is the maximum number of file operations of one run, which bounds its time. 0 means 20,000.
	MaxOps uint64
	// BeforeClose, if it is not nil, is called with each opened database before it is closed.
	BeforeClose func(Store)
}

// errTooManyOps is the error of file operations beyond MaxOps.
var errTooManyOps = errors.New("damage: too many file operations")

// alone is locked for reading by each run, and for writing by a run that must be the only one.
var alone sync.RWMutex

// Run opens the image and reads all of it. The allocations of other goroutines count too, so a result
// above the bound is measured again without other runs.
func (d *Driver) Run(im Image) (out Outcome) {
	alone.RLock()
	out = d.runOnce(im)
	alone.RUnlock()
	if out.Class != Memory {
		return out
	}
	alone.Lock()
	defer alone.Unlock()
	return d.runOnce(im)
}

func (d *Driver) runOnce(im Image) (out Outcome) {
	mem, err := im.FS(d.Dir)
	if err != nil {
		panic(err) // a file system in memory does not fail
	}
	maxOps := d.MaxOps
	if maxOps == 0 {
		maxOps = 20_000
	}
	faulty := wrap.NewFaulty(mem, func(op wrap.Op) *wrap.Fault {
		if op.Index < maxOps {
			return nil
		}
		return &wrap.Fault{Err: errTooManyOps}
	})
	before := Allocated()
	out = d.guarded(faulty)
	out.Allocated = Allocated() - before
	switch {
	case out.Class == Panic:
	case faulty.Ops() >= maxOps:
		out.Class, out.Detail = Hang, fmt.Sprintf("%d file operations", faulty.Ops())
	case out.Allocated > MemoryBound(im.Size()):
		out.Class = Memory
		out.Detail = fmt.Sprintf("%d bytes allocated for an image of %d", out.Allocated, im.Size())
	}
	return out
}

// Allocated returns the number of bytes that the process has allocated on the heap so far, including
// those freed since. (Package runtime/metrics is cheaper, and adds what each processor has allocated
// when the collector runs: 190 KB of before may count as later.)
func Allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

// guarded opens and reads the store, and recovers panics.
func (d *Driver) guarded(fsys vfs.FS) (out Outcome) {
	defer func() {
		if p := recover(); p != nil {
			out = Outcome{Class: Panic, Detail: fmt.Sprintf("%v\n%s", p, debug.Stack())}
		}
	}()
	store, err := d.Open(fsys)
	if err != nil {
		return Outcome{Class: classify(err), Err: err}
	}
	best := Outcome{Class: Hang}
	for state := range d.States {
		r := reading{d: d, want: d.States[state], store: store}
		r.all()
		r.out.State = state
		if r.out.Class < best.Class {
			best = r.out
		}
		if best.Class <= Refused {
			break
		}
	}
	if d.BeforeClose != nil {
		d.BeforeClose(store)
	}
	if err := store.Close(); err != nil && best.Class == Correct {
		best = Outcome{Class: classify(err), Err: err, State: best.State}
	}
	return best
}

// classify returns the class of an error.
func classify(err error) Class {
	if base.IsUnreadable(err) || errors.Is(err, fs.ErrNotExist) {
		return Refused
	}
	return Unclear
}

// reading compares one open store with one state.
type reading struct {
	d     *Driver
	want  []Pair
	store Store
	out   Outcome
}

// worse keeps the worst class, and the first detail found for it.
func (r *reading) worse(c Class, err error, format string, args ...any) {
	if r.out.Err == nil {
		r.out.Err = err
	}
	if c > r.out.Class {
		r.out.Class = c
		r.out.Detail = fmt.Sprintf(format, args...)
		if err != nil {
			r.out.Detail += ": " + err.Error()
		}
	}
}

func (r *reading) failed(err error, where string) { r.worse(classify(err), err, "%s", where) }

func (r *reading) all() {
	for i, p := range r.want {
		got, err := r.store.Get(p.Key)
		switch {
		case errors.Is(err, base.ErrNotFound):
			r.worse(Silent, nil, "key %d of %d is not found", i, len(r.want))
		case err != nil:
			r.failed(err, "Get")
		case !bytes.Equal(got, p.Value):
			r.worse(Silent, nil, "key %d of %d has a wrong value", i, len(r.want))
		}
	}
	for i, key := range r.d.Absent {
		_, err := r.store.Get(key)
		switch {
		case err == nil:
			r.worse(Silent, nil, "absent key %d is found", i)
		case !errors.Is(err, base.ErrNotFound):
			r.failed(err, "Get of an absent key")
		}
	}
	r.walk("forward", Iterator.First, Iterator.Next, func(i int) Pair { return r.want[i] })
	r.walk("backward", Iterator.Last, Iterator.Prev, func(i int) Pair { return r.want[len(r.want)-1-i] })
}

// walk compares one pass of an iterator with want, whose argument counts entries in the order of the pass.
func (r *reading) walk(way string, first, next func(Iterator) bool, want func(int) Pair) {
	it, err := r.store.NewIterator()
	if err != nil {
		r.failed(err, "NewIterator")
		return
	}
	n := 0
	for ok := first(it); ok; ok = next(it) {
		if n == len(r.want) {
			r.worse(Silent, nil, "%s: more than %d entries", way, n)
			break
		}
		value := it.Value()
		if it.Err() != nil { // the value could not be read
			break
		}
		if p := want(n); !bytes.Equal(p.Key, it.Key()) || !bytes.Equal(p.Value, value) {
			r.worse(Silent, nil, "%s: entry %d of %d is wrong", way, n, len(r.want))
			break
		}
		n++
	}
	if err := it.Err(); err != nil {
		r.failed(err, way)
		if first(it) {
			r.worse(Silent, nil, "%s: an iterator continues after its error", way)
		}
	} else if n < len(r.want) {
		r.worse(Silent, nil, "%s: it ends after %d of %d entries without an error", way, n, len(r.want))
	}
	if err := it.Close(); err != nil {
		r.failed(err, "closing an iterator")
	}
}

// Tally counts outcomes by class.
type Tally [NumClasses]int

// Add counts an outcome.
func (t *Tally) Add(c Class) { t[c]++ }

// Total returns the number of outcomes.
func (t *Tally) Total() (n int) {
	for _, c := range t {
		n += c
	}
	return n
}

// Wrong returns the number of outcomes that are not allowed: all except Correct and Refused.
func (t *Tally) Wrong() int { return t.Total() - t[Correct] - t[Refused] }

// String returns the number of outcomes of each class.
func (t *Tally) String() string {
	s := fmt.Sprintf("%7d cases:", t.Total())
	for c, n := range t {
		if n > 0 || c <= int(Refused) {
			s += fmt.Sprintf(" %d %s", n, Class(c))
		}
	}
	return s
}
