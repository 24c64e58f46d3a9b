package db_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"reflect"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/vfs"
)

// bomb panics in its call number at and, unless once is set, in each later call until it is disarmed.
type bomb struct {
	once      bool
	at, calls atomic.Int64
	went      atomic.Bool
}

const boom = "boom: the user's code is at fault"

func (b *bomb) tick() {
	if n := b.calls.Add(1); b.at.Load() > 0 && (n == b.at.Load() || n > b.at.Load() && !b.once) {
		b.went.Store(true)
		panic(boom)
	}
}

func (b *bomb) disarm() { b.at.Store(0) }

// bombPolicy is a filter policy whose calls tick a bomb.
type bombPolicy struct {
	filter.Policy
	b *bomb
}

func (p bombPolicy) CreateFilter(dst []byte, keys [][]byte) []byte {
	p.b.tick()
	return p.Policy.CreateFilter(dst, keys)
}

func (p bombPolicy) KeyMayMatch(key, f []byte) bool {
	p.b.tick()
	return p.Policy.KeyMayMatch(key, f)
}

// bombWriter is the output of a Logger.
type bombWriter struct{ b *bomb }

func (w bombWriter) Write(p []byte) (int, error) { w.b.tick(); return len(p), nil }

// bombComparer orders by bytes, but is not recognized as the built-in comparer.
func bombComparer(b *bomb) *db.Comparer {
	return &db.Comparer{Name: "test.bomb", Compare: func(x, y []byte) int { b.tick(); return bytes.Compare(x, y) }}
}

// bombListener ticks the bomb in each of its functions.
func bombListener(b *bomb) *db.EventListener {
	l := &db.EventListener{}
	v := reflect.ValueOf(l).Elem()
	for i := range v.NumField() {
		v.Field(i).Set(reflect.MakeFunc(v.Field(i).Type(), func([]reflect.Value) []reflect.Value { b.tick(); return nil }))
	}
	return l
}

// bombs are the kinds of user code that may panic.
var bombs = map[string]func(o *db.Options, b *bomb){
	"comparer": func(o *db.Options, b *bomb) { o.Comparer = bombComparer(b) },
	"filter policy": func(o *db.Options, b *bomb) {
		o.Filters.Policy = bombPolicy{renamed{BloomPolicy: filter.NewBloomPolicy(10), As: "test.bomb"}, b}
	},
	"file system": func(o *db.Options, b *bomb) {
		o.FS = wrap.NewFaulty(o.FS, func(wrap.Op) *wrap.Fault { b.tick(); return nil })
	},
	"listener": func(o *db.Options, b *bomb) { o.EventListener = bombListener(b) },
	"clock": func(o *db.Options, b *bomb) {
		o.Expiry = db.ExpiryOptions{Prefixes: [][]byte{[]byte("key00000"), []byte("load")}, Clock: func() time.Time { b.tick(); return time.Now() }}
	},
	"compaction filter": func(o *db.Options, b *bomb) {
		o.Compaction.Filter = func(_, value []byte) ([]byte, bool) { b.tick(); return value, true }
	},
	"logger": func(o *db.Options, b *bomb) { o.Logger = slog.New(slog.NewTextHandler(bombWriter{b}, nil)) },
}

// panicRun uses a store and recovers from the panics that reach it.
type panicRun struct {
	panics int
	errs   []error
	acked  map[string]bool
}

// try calls f and reports whether it returned without an error.
func (r *panicRun) try(f func() error) (done bool) {
	defer func() {
		if value := recover(); value != nil {
			if value != boom {
				panic(value)
			}
			r.panics++
		}
	}()
	err := f()
	if err != nil {
		r.errs = append(r.errs, err)
	}
	return err == nil
}

// use opens the store, calls many of its methods, and closes it.
func (r *panicRun) use(o *db.Options) {
	var d *db.DB
	if !r.try(func() (err error) { d, err = db.Open("db", o); return err }) {
		return
	}
	put := func(from, to int) {
		for i := from; i < to; i++ {
			key := testKey(i * 7 % 100)
			if r.try(func() error { return d.Put(key, testValue(1), []*db.WriteOptions{db.NoSync, db.Sync, db.NoSync}[i%3]) }) {
				r.acked[string(key)] = true
			}
		}
	}
	put(0, 40)
	r.try(d.Flush)
	put(40, 80)
	r.try(d.Flush)
	r.try(func() error { _, err := d.Get(testKey(3)); return err })
	r.try(func() error { return d.Compact(background, nil, nil) })
	r.try(func() error { _, err := d.UpgradeFilters(background, nil, nil); return err })
	var l *db.Loader
	if r.try(func() (err error) { l, err = d.NewLoader(); return err }) {
		loaded := r.try(func() error { return l.Put([]byte("load1"), nil) }) && r.try(func() error { return l.Put([]byte("load2"), nil) })
		if loaded && r.try(l.Commit) {
			r.acked["load1"], r.acked["load2"] = true, true
		}
	}
	b := &db.Batch{}
	b.Put([]byte("batch"), nil)
	if r.try(func() error { return d.Apply(b, db.Sync) }) {
		r.acked["batch"] = true
	}
	put(80, 100)
	r.try(d.Close)
}

// within fails the test binary, with all stacks, if f takes longer than any machine needs.
func within(t testing.TB, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(2 * time.Minute):
		stacks := make([]byte, 1<<20)
		panic(fmt.Sprintf("%s hangs\n%s", what, stacks[:runtime.Stack(stacks, true)]))
	}
}

// The bug: a panic of the user's code in a write, or in a goroutine of the store, left locks and the
// leadership of commits taken, and `defer d.Close()` hung for ever. Some panics ended the process, and
// Open panicked when the comparer did.
func TestPanicsReachACallerAndNothingHangsOrIsLost(t *testing.T) {
	for name, plant := range bombs {
		for _, once := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/once=%v", name, once), func(t *testing.T) {
				for at := int64(1); detonate(t, plant, &bomb{once: once}, at); at += 1 + at/12 {
				}
			})
		}
	}
}

// detonate uses a store in which b panics in its call number at, and reports whether there was such a call.
func detonate(t *testing.T, plant func(o *db.Options, b *bomb), b *bomb, at int64) bool {
	o := testOptions(nil)
	o.FS, o.Memtables.Size, o.Compaction.L0Trigger, o.Cache.OpenAhead = vfs.NewMem(), 4<<10, 2, true
	plant(o, b)
	b.at.Store(at)
	r := panicRun{acked: map[string]bool{}}
	within(t, fmt.Sprintf("call %d", at), func() { r.use(o) })
	if b.went.Load() {
		requireBoomReported(t, &r, at)
	}
	b.disarm()
	d, err := db.Open("db", o)
	require.NoError(t, err, "call %d", at)
	for key := range r.acked {
		_, err := d.Get([]byte(key))
		require.NoError(t, err, "call %d: key %s", at, key)
	}
	requireNoFaults(t, d)
	require.NoError(t, d.Close())
	return b.went.Load()
}

// requireBoomReported requires that the panic reached a caller, as a panic or in an error.
func requireBoomReported(t *testing.T, r *panicRun, at int64) {
	t.Helper()
	reported := r.panics > 0
	for _, err := range r.errs {
		var p *db.PanicError
		if errors.As(err, &p) {
			require.Contains(t, err.Error(), boom)
			require.Contains(t, string(p.Stack), "db_test.(*bomb).tick")
			require.True(t, strings.Contains(err.Error(), "db_test.(*bomb).tick"), "the error says where: %v", err)
			reported = true
		}
	}
	require.True(t, reported, "call %d panicked, but no caller got the panic; errors: %v", at, r.errs)
}
