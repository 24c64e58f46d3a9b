package crashtest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/storetest"
	"github.com/sievedb/sievedb/vfs"
)

// bombPolicy is a filter policy whose calls tick a bomb.
type bombPolicy struct {
	filter.Policy
	b *fixture.Bomb
}

func (p bombPolicy) CreateFilter(dst []byte, keys [][]byte) []byte {
	p.b.Tick()
	return p.Policy.CreateFilter(dst, keys)
}

func (p bombPolicy) KeyMayMatch(key, f []byte) bool {
	p.b.Tick()
	return p.Policy.KeyMayMatch(key, f)
}

// bombWriter is the output of a Logger.
type bombWriter struct{ b *fixture.Bomb }

func (w bombWriter) Write(p []byte) (int, error) { w.b.Tick(); return len(p), nil }

// bombListener ticks the bomb in each of its functions.
func bombListener(b *fixture.Bomb) *db.EventListener {
	l := &db.EventListener{}
	v := reflect.ValueOf(l).Elem()
	for i := range v.NumField() {
		v.Field(i).Set(reflect.MakeFunc(v.Field(i).Type(), func([]reflect.Value) []reflect.Value { b.Tick(); return nil }))
	}
	return l
}

// bombs are the kinds of user code that may panic.
var bombs = map[string]func(o *db.Options, b *fixture.Bomb){
	"comparer": func(o *db.Options, b *fixture.Bomb) { o.Comparer = b.Comparer() },
	"filter policy": func(o *db.Options, b *fixture.Bomb) {
		o.Filters.Policy = bombPolicy{fixture.Renamed{BloomPolicy: filter.NewBloomPolicy(10), As: "test.bomb"}, b}
	},
	"file system": func(o *db.Options, b *fixture.Bomb) {
		o.FS = wrap.NewFaulty(o.FS, func(wrap.Op) *wrap.Fault { b.Tick(); return nil })
	},
	"listener": func(o *db.Options, b *fixture.Bomb) { o.EventListener = bombListener(b) },
	"clock": func(o *db.Options, b *fixture.Bomb) {
		o.Expiry = db.ExpiryOptions{Prefixes: [][]byte{[]byte("key00000"), []byte("load")}, Clock: func() time.Time { b.Tick(); return time.Now() }}
	},
	"compaction filter": func(o *db.Options, b *fixture.Bomb) {
		o.Compaction.Filter = func(_, value []byte) ([]byte, bool) { b.Tick(); return value, true }
	},
	"logger": func(o *db.Options, b *fixture.Bomb) { o.Logger = slog.New(slog.NewTextHandler(bombWriter{b}, nil)) },
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
			if value != fixture.Boom {
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
			key := fixture.Key(i * 7 % 100)
			if r.try(func() error {
				return d.Put(key, fixture.Value(1), []*db.WriteOptions{db.NoSync, db.Sync, db.NoSync}[i%3])
			}) {
				r.acked[string(key)] = true
			}
		}
	}
	put(0, 40)
	r.try(d.Flush)
	put(40, 80)
	r.try(d.Flush)
	r.try(func() error { _, err := d.Get(fixture.Key(3)); return err })
	r.try(func() error { return d.Compact(context.Background(), nil, nil) })
	r.try(func() error { _, err := d.UpgradeFilters(context.Background(), nil, nil); return err })
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

// The bug: a panic of the user's code in a write, or in a goroutine of the store, left locks and the
// leadership of commits taken, and `defer d.Close()` hung for ever. Some panics ended the process, and
// Open panicked when the comparer did.
func TestPanicsReachACallerAndNothingHangsOrIsLost(t *testing.T) {
	for name, plant := range bombs {
		for _, once := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/once=%v", name, once), func(t *testing.T) {
				for at := int64(1); detonate(t, plant, &fixture.Bomb{Once: once}, at); at += 1 + at/12 {
				}
			})
		}
	}
}

// detonate uses a store in which b panics in its call number at, and reports whether there was such a call.
func detonate(t *testing.T, plant func(o *db.Options, b *fixture.Bomb), b *fixture.Bomb, at int64) bool {
	o := storetest.Options(nil)
	o.FS, o.Memtables.Size, o.Compaction.L0Trigger, o.Cache.OpenAhead = vfs.NewMem(), 4<<10, 2, true
	plant(o, b)
	b.At.Store(at)
	r := panicRun{acked: map[string]bool{}}
	fixture.Within(t, fmt.Sprintf("call %d", at), func() { r.use(o) })
	if b.Went.Load() {
		requireBoomReported(t, &r, at)
	}
	b.At.Store(0)
	d, err := db.Open("db", o)
	require.NoError(t, err, "call %d", at)
	for key := range r.acked {
		_, err := d.Get([]byte(key))
		require.NoError(t, err, "call %d: key %s", at, key)
	}
	storetest.RequireNoFaults(t, d)
	require.NoError(t, d.Close())
	return b.Went.Load()
}

// requireBoomReported requires that the panic reached a caller, as a panic or in an error.
func requireBoomReported(t *testing.T, r *panicRun, at int64) {
	t.Helper()
	reported := r.panics > 0
	for _, err := range r.errs {
		var p *db.PanicError
		if errors.As(err, &p) {
			require.Contains(t, err.Error(), fixture.Boom)
			require.Contains(t, string(p.Stack), "fixture.(*Bomb).Tick")
			require.True(t, strings.Contains(err.Error(), "fixture.(*Bomb).Tick"), "the error says where: %v", err)
			reported = true
		}
	}
	require.True(t, reported, "call %d panicked, but no caller got the panic; errors: %v", at, r.errs)
}

// The bug: if the comparer panicked in the replay of the log, each Open panicked and left the directory locked.
func TestOpenNamesAComparerThatPanics(t *testing.T) {
	b := &fixture.Bomb{}
	o := storetest.Options(nil)
	o.FS, o.Comparer = vfs.NewMem(), b.Comparer()
	d := storetest.OpenDir(t, "db", o)
	storetest.Fill(t, d, 0, 20)
	require.NoError(t, d.Close())
	b.Calls.Store(0)
	b.At.Store(1)
	_, err := db.Open("db", o)
	var p *db.PanicError
	require.ErrorAs(t, err, &p)
	require.Equal(t, fixture.Boom, p.Value)
	require.ErrorContains(t, err, `the comparer "test.bomb" panicked during the replay of the logs: `+fixture.Boom)
	b.At.Store(0)
	d, err = db.Open("db", o)
	require.NoError(t, err, "the directory is not locked")
	require.NoError(t, d.Close())

	require.NoError(t, o.FS.Remove(filepath.Join("db", "CURRENT")))
	b.At.Store(1)
	_, err = db.RepairWithReport("db", o)
	require.ErrorContains(t, err, `the comparer "test.bomb" panicked during Repair`)
	b.At.Store(0)
	require.NoError(t, db.Repair("db", o), "the directory is not locked")
	d = storetest.OpenDir(t, "db", o)
	defer d.Close()
	for i := range 20 {
		storetest.RequireValue(t, d, fixture.Key(i), fixture.Value(i))
	}
}

// The bug: writers that were committed together with one that panicked waited for ever.
func TestWritersCommittedWithOneThatPanicsGetAnError(t *testing.T) {
	b := &fixture.Bomb{}
	o := storetest.Options(nil)
	o.FS, o.Comparer = vfs.NewMem(), b.Comparer()
	o.Memtables.Size = 1 << 20 // no flush begins: the comparer would panic there, and no writer would
	d := storetest.OpenDir(t, "db", o)
	storetest.Fill(t, d, 0, 100)
	b.At.Store(b.Calls.Load() + 500)
	var panics, ended atomic.Int64
	fixture.Within(t, "a writer or Close", func() {
		var group sync.WaitGroup
		for w := range 8 {
			group.Go(func() {
				defer func() {
					if recover() != nil {
						panics.Add(1)
					}
				}()
				var err error
				for i := 0; err == nil; i++ {
					err = d.Put(fixture.Key(1000+8*i+w), nil, []*db.WriteOptions{db.NoSync, db.Sync}[w%2])
				}
				var p *db.PanicError
				if errors.Is(err, db.ErrReadOnly) && errors.As(err, &p) {
					ended.Add(1)
				}
			})
		}
		group.Wait()
		require.ErrorContains(t, d.Close(), fixture.Boom)
	})
	require.Positive(t, panics.Load(), "the panic reaches the caller that caused it")
	require.EqualValues(t, 8, panics.Load()+ended.Load())
}

// The bug: after a listener had ended its goroutine, as FailNow does, Flush and Close hung.
func TestAListenerThatEndsItsGoroutineEndsTheWrites(t *testing.T) {
	for name, l := range map[string]*db.EventListener{
		"FlushEnd":        {FlushEnd: func(db.FlushInfo) { runtime.Goexit() }},
		"CompactionBegin": {CompactionBegin: func(db.CompactionInfo) { runtime.Goexit() }},
		"CompactionEnd":   {CompactionEnd: func(db.CompactionInfo) { runtime.Goexit() }},
	} {
		t.Run(name, func(t *testing.T) {
			o := storetest.Options(nil)
			o.FS, o.EventListener, o.Compaction.L0Trigger = vfs.NewMem(), l, 1
			d := storetest.OpenDir(t, "db", o)
			require.NoError(t, d.Put(fixture.Key(1), fixture.Value(1), db.Sync))
			fixture.Within(t, "Flush or Close", func() {
				_ = d.Flush() // the table may be complete before the listener ends
				fixture.Eventually(t, func() bool { return d.Put(fixture.Key(2), nil, db.NoSync) != nil })
				require.ErrorContains(t, d.Put(fixture.Key(2), nil, db.NoSync), "runtime.Goexit was called")
				require.ErrorIs(t, d.Put(fixture.Key(2), nil, db.NoSync), db.ErrReadOnly)
				storetest.RequireValue(t, d, fixture.Key(1), fixture.Value(1))
				require.Error(t, d.Close())
			})
		})
	}
}

// After a panic in the middle of a write, the contents of the log are unknown. A retry might append
// after a torn record.
func TestNothingIsWrittenToALogAfterAPanic(t *testing.T) {
	var armed atomic.Bool
	var writes atomic.Int64
	mem := vfs.NewMem()
	o := storetest.Options(nil)
	o.FS = wrap.NewFaulty(mem, func(op wrap.Op) *wrap.Fault {
		if filepath.Ext(op.Name) == ".log" && (op.Kind == wrap.OpWrite || op.Kind == wrap.OpSync) {
			writes.Add(1)
			if armed.Load() {
				panic(fixture.Boom)
			}
		}
		return nil
	})
	d := storetest.OpenDir(t, "db", o)
	require.NoError(t, d.Put(fixture.Key(1), fixture.Value(1), db.Sync))
	armed.Store(true)
	require.PanicsWithValue(t, fixture.Boom, func() { _ = d.Put(fixture.Key(2), fixture.Value(2), db.Sync) })
	before := writes.Load()
	for _, wo := range []*db.WriteOptions{db.Sync, db.NoSync, db.Buffered} {
		require.ErrorIs(t, d.Put(fixture.Key(3), nil, wo), db.ErrReadOnly)
	}
	require.ErrorIs(t, d.Flush(), db.ErrReadOnly)
	require.ErrorContains(t, d.Close(), fixture.Boom)
	require.Equal(t, before, writes.Load())
	o.FS = mem
	d = storetest.OpenDir(t, "db", o)
	defer d.Close()
	storetest.RequireValue(t, d, fixture.Key(1), fixture.Value(1))
}
