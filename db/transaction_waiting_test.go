package db_test

import (
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/vfs"
)

// hook calls a function once, when it is armed, before the next operation of a file that at chooses.
type hook struct {
	at    func(op wrap.Op) bool
	armed atomic.Pointer[func()]
}

// over returns fs with the hook.
func (h *hook) over(fs vfs.FS) vfs.FS {
	return wrap.NewFaulty(fs, func(op wrap.Op) *wrap.Fault {
		if f := h.armed.Load(); f != nil && h.at(op) && h.armed.CompareAndSwap(f, nil) {
			(*f)()
		}
		return nil
	})
}

func (h *hook) arm(f func()) { h.armed.Store(&f) }

// called reports whether the function was called since the hook was armed.
func (h *hook) called() bool { return h.armed.Load() == nil }

// of returns a choice of operations of files whose names have part.
func of(kind wrap.OpKind, part string) func(op wrap.Op) bool {
	return func(op wrap.Op) bool { return op.Kind == kind && strings.Contains(op.Name, part) }
}

// interruption is a store that calls a function at a moment of a change that the leader makes.
type interruption struct {
	hook
	d *db.DB
}

// update runs Modify of key in another goroutine, and returns when it waits for the leader or has ended.
func (i *interruption) update(key []byte, result chan<- string) {
	var ended atomic.Bool
	go func() {
		calls := 0
		err := i.d.Modify(key, func(old []byte) ([]byte, error) {
			calls++
			return append(old, '+'), nil
		}, db.NoSync)
		ended.Store(true)
		result <- fmt.Sprint(calls, err)
	}()
	for !ended.Load() && i.d.Committer().Status().Queued == 0 {
		runtime.Gosched()
	}
}

// The bug: while a deletion of a range or an ingest was written to the MANIFEST, each Update conflicted
// at once, a hundred times within microseconds, and failed.
func TestUpdatesWaitForAChangeThatIsBeingRecorded(t *testing.T) {
	for _, test := range []struct {
		name, key, want, value string
		change                 func(t *testing.T, d *db.DB, fs vfs.FS)
	}{
		{"another key than those deleted", "first", "1 <nil>", "old+", deleteMiddle},
		{"a key without a value between those deleted", "key000500+", "1 <nil>", "+", deleteMiddle},
		{"a deleted key", "key000500", "2 <nil>", "+", deleteMiddle},
		{"another key than those of a table", "first", "1 <nil>", "old+", ingestAway},
		{"a key in the gap of a table", "key020005", "1 <nil>", "+", ingestAway},
		{"a key of a table", "key020010", "2 <nil>", "ingested+", ingestAway},
		{"another key than those of a load", "first", "1 <nil>", "old+", loadAway},
		{"a key of a load", "key020010", "2 <nil>", "loaded+", loadAway},
	} {
		t.Run(test.name, func(t *testing.T) {
			i := &interruption{hook: hook{at: of(wrap.OpWrite, "MANIFEST")}}
			o := testOptions(i.over(vfs.NewMem()))
			o.Tables.Size = 8 << 10
			i.d = openTest(t, o)
			fill(t, i.d, 0, 1_000)
			require.NoError(t, i.d.Put([]byte("first"), []byte("old"), db.NoSync))
			require.NoError(t, i.d.Compact(t.Context(), nil, nil))
			result := make(chan string, 1)
			test.change(t, i.d, armedFS{o.FS, func() { i.arm(func() { i.update([]byte(test.key), result) }) }})
			require.True(t, i.called())
			require.Equal(t, test.want, <-result)
			requireValue(t, i.d, []byte(test.key), []byte(test.value))
		})
	}
}

// armedFS has a function that makes the next change an interrupted one.
type armedFS struct {
	vfs.FS
	arm func()
}

func (a armedFS) CreateLog(name string) (vfs.File, error) { return vfs.CreateLog(a.FS, name) }

func deleteMiddle(t *testing.T, d *db.DB, fs vfs.FS) {
	before := d.Untraced().Last()
	fs.(armedFS).arm()
	require.NoError(t, d.DeleteRange(t.Context(), testKey(100), testKey(900), nil))
	require.Greater(t, d.Untraced().Last(), before, "no table was removed")
}

func ingestAway(t *testing.T, d *db.DB, fs vfs.FS) {
	path := makeTable(t, fs.(armedFS).FS, "in/a", []madeEntry{{string(testKey(20_000)), 1, "ingested"},
		{string(testKey(20_010)), 2, "ingested"}, {string(testKey(20_020)), 3, "ingested"}})
	fs.(armedFS).arm()
	require.Equal(t, 1, mustIngest(t, d, path).Linked)
}

func loadAway(t *testing.T, d *db.DB, fs vfs.FS) {
	l := newLoader(t, d)
	for i := 20_000; i <= 20_020; i += 10 {
		require.NoError(t, l.Put(testKey(i), []byte("loaded")))
	}
	fs.(armedFS).arm()
	require.NoError(t, l.Commit())
}

// The bug's relative: a load was in the version before its number was visible. An Update of one of its keys
// found the change, and did not see it when it began again. Now it sees the load at once.
func TestUpdatesSeeALoadThatIsInTheVersion(t *testing.T) {
	i := &interruption{hook: hook{at: of(wrap.OpRemove, "999999.ldb")}}
	i.d = openTest(t, testOptions(i.over(vfs.NewMem())))
	fill(t, i.d, 0, 10)
	require.NoError(t, i.d.Flush())
	l := newLoader(t, i.d)
	require.NoError(t, l.Put(testKey(5), []byte("loaded")))
	i.d.Obsolete().AddUncertain(version.NewFileMeta(999_999, 1, nil, nil)) // is removed in between
	result := make(chan string, 1)
	i.arm(func() { i.update(testKey(5), result) })
	require.NoError(t, l.Commit())
	require.True(t, i.called())
	require.Equal(t, "1 <nil>", <-result)
	requireValue(t, i.d, testKey(5), []byte("loaded+"))
}
