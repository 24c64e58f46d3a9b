package db_test

import (
	"fmt"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/vfs"
)

// listenerProbe calls every method of the store from a function of its listener.
type listenerProbe struct {
	d      atomic.Pointer[db.DB]
	loader atomic.Pointer[db.Loader]
	within atomic.Bool // it is calling, so events of its own calls are ignored
	calls  atomic.Int64

	mu    sync.Mutex
	wrong []string
}

// waiting are the methods that wait for work that may be waiting for the listener.
var waiting = strings.Fields("Put Delete Apply DeleteRange Modify ModifyTTL Update SyncLog Flush Compact UpgradeFilters " +
	"PauseCompactions Checkpoint Ingest Changes WaitForChange SetReadOnly Close Loader.Commit")

func (p *listenerProbe) callAll(event string) {
	d := p.d.Load()
	if d == nil || p.within.Swap(true) {
		return
	}
	defer p.within.Store(false)
	p.calls.Add(1)
	of := errorsOf(d, background)
	_, of["UpgradeFilters, dry"] = d.UpgradeFilters(background, nil, &db.UpgradeOptions{DryRun: true})
	for method, err := range errorsOf(d.NewSnapshot(), background) {
		of["Snapshot."+method] = err
	}
	if l := p.loader.Load(); l != nil {
		of["Loader.Commit"] = l.Commit()
		for _, err := range []error{l.Put([]byte("zzz"), nil), l.Delete([]byte("zzzz")), l.Close()} {
			if err != nil && err != db.ErrInListener && err != db.ErrClosed {
				p.note("%s: a method of Loader: %v", event, err)
			}
		}
	}
	for method, err := range of {
		// Others may find no key, or say that the store keeps no changes, is no follower and so on.
		works := err == nil || err == db.ErrNotFound || strings.HasPrefix(err.Error(), "sievedb: "+method+": ")
		if slices.Contains(waiting, method) {
			works = err == db.ErrInListener
		}
		if !works && !(err == db.ErrClosed && d.IsClosed()) {
			p.note("%s: %s: %v", event, method, err)
		}
	}
}

func (p *listenerProbe) note(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wrong = append(p.wrong, fmt.Sprintf(format, args...))
}

// The bug: Flush in FlushEnd, Compact in CompactionEnd, Put in WriteStall and Close of a Loader in
// LoadEnd waited for themselves, and the store hung. Only Close of the DB was refused.
func TestNoCallFromAListenerHangs(t *testing.T) {
	fields := reflect.TypeFor[db.EventListener]()
	for i := range fields.NumField() {
		event := fields.Field(i).Name
		t.Run(event, func(t *testing.T) {
			p := &listenerProbe{}
			l := &db.EventListener{}
			f := reflect.ValueOf(l).Elem().Field(i)
			f.Set(reflect.MakeFunc(f.Type(), func([]reflect.Value) []reflect.Value { p.callAll(event); return nil }))
			within(t, event, func() { causeEvents(t, p, l) })
			require.Positive(t, p.calls.Load(), "the listener was called")
			require.Empty(t, p.wrong)
		})
	}
}

// causeEvents makes the store report each event.
func causeEvents(t *testing.T, p *listenerProbe, l *db.EventListener) {
	var failures atomic.Int64
	var opening, holding atomic.Bool
	mem := vfs.NewMem()
	gone := make(chan struct{})
	o := testOptions(wrap.NewFaulty(mem, func(op wrap.Op) *wrap.Fault {
		table := filepath.Ext(op.Name) == ".ldb"
		if opening.Load() && table && op.Kind == wrap.OpOpen {
			<-gone // so that p knows the store when the tables are opened ahead
		}
		if table && op.Kind == wrap.OpCreate && failures.Add(-1) >= 0 {
			return &wrap.Fault{Err: syscall.ENOSPC}
		}
		for table && op.Kind == wrap.OpCreate && holding.Load() { // until a writer waits for the flush
			if p.d.Load().Metrics().Stalls.CurrentReason != "" {
				holding.Store(false)
			}
			runtime.Gosched()
		}
		return nil
	}))
	o.Filters.Policy = renamed{BloomPolicy: filter.NewBloomPolicy(10), As: "test.unknown"}
	d := mustOpen(t, o)
	fill(t, d, 0, 100)
	require.NoError(t, d.Flush())
	require.NoError(t, d.Close())

	o.Filters.Policy, o.EventListener, o.Cache.OpenAhead = nil, l, true
	o.Compaction.L0Trigger, o.Compaction.L0Slowdown, o.Compaction.L0Stop = 2, 2, 4
	opening.Store(true)
	d = mustOpen(t, o)
	p.d.Store(d)
	opening.Store(false)
	close(gone)
	failures.Store(1)
	for i := range 2000 {
		for d.Put(testKey(i), testValue(i), db.NoSync) != nil { // there is no room while a flush fails
		}
	}
	eventually(t, func() bool { return d.Flush() == nil })
	holding.Store(true)
	for i := 0; holding.Load(); i++ {
		require.NoError(t, d.Put(testKey(i), testValue(i), db.NoSync))
	}
	loader, err := d.NewLoader()
	require.NoError(t, err)
	p.loader.Store(loader)
	if err := loader.Put([]byte("load"), nil); err == nil {
		_ = loader.Commit() // unless the listener ended it
	}
	mustIngest(t, d, makeTable(t, mem, "in/a", keysFrom(9000, 9001, 0, "a")))
	eventually(t, func() bool { return d.Flush() == nil })
	_ = d.Compact(background, nil, nil)
	requireValue(t, d, testKey(1), testValue(1))
	require.NoError(t, d.Put([]byte("last"), nil, db.Sync))
	require.NoError(t, d.Close())
}
