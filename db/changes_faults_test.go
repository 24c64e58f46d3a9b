package db

import (
	"context"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/vfs"
)

// failing is a file system on which some operations fail while a test wants that.
type failing struct {
	*wrap.Faulty
	mem  *vfs.Mem
	hook atomic.Pointer[func(wrap.Op) *wrap.Fault]
}

func newFailing() *failing {
	f := &failing{mem: vfs.NewMem()}
	f.Faulty = wrap.NewFaulty(f.mem, func(op wrap.Op) *wrap.Fault {
		if hook := f.hook.Load(); hook != nil {
			return (*hook)(op)
		}
		return nil
	})
	return f
}

// fail makes operations fail of a kind whose name contains part, with err.
func (f *failing) fail(kind wrap.OpKind, part string, err error) {
	f.on(func(op wrap.Op) *wrap.Fault {
		if op.Kind == kind && strings.Contains(op.Name, part) {
			return &wrap.Fault{Err: err}
		}
		return nil
	})
}

func (f *failing) on(hook func(wrap.Op) *wrap.Fault) { f.hook.Store(&hook) }
func (f *failing) heal()                             { f.hook.Store(nil) }

// keysOf returns the keys and deletions that the feed yields from a position.
func keysOf(t testing.TB, d *DB, since uint64, o *ChangeOptions) (keys []string) {
	t.Helper()
	for c, err := range d.Changes(background, since, o) {
		require.NoError(t, err)
		keys = append(keys, changedKeys(t, c)...)
	}
	return keys
}

func changedKeys(t testing.TB, c Change) (keys []string) {
	t.Helper()
	for e, err := range c.Entries() {
		require.NoError(t, err)
		switch e.Kind {
		case EntryPut:
			keys = append(keys, string(e.Key))
		case EntryDelete:
			keys = append(keys, "-"+string(e.Key))
		case EntryDeleteRange:
			keys = append(keys, string(e.Key)+".."+string(e.Value))
		}
	}
	return keys
}

// The sync of a record fails because the disk is full: the record is in the log, but was not made. A reader that
// waits there, and one that comes later, do not get it.
func TestTheFeedHasNoWriteThatFailed(t *testing.T) {
	fsys := newFailing()
	d := openTest(t, changesOptions(fsys))
	require.NoError(t, d.Put([]byte("a"), nil, Sync))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var keys []string
	for c, err := range d.Changes(ctx, 0, &ChangeOptions{Wait: true}) {
		require.NoError(t, err)
		keys = append(keys, changedKeys(t, c)...)
		if len(keys) > 1 {
			break
		}
		fsys.fail(wrap.OpSync, ".log", syscall.ENOSPC)
		require.ErrorIs(t, d.Put([]byte("failed"), nil, Sync), ErrNoSpace)
		fsys.heal()
		require.NoError(t, d.Put([]byte("b"), nil, Sync))
	}
	require.Equal(t, []string{"a", "b"}, keys)
	require.Equal(t, keys, keysOf(t, d, 0, nil))
	require.NoError(t, d.Flush())
	require.Equal(t, keys, keysOf(t, d, 0, nil))
	require.NoError(t, d.Close())
	d = openTest(t, changesOptions(fsys))
	require.Equal(t, keys, keysOf(t, d, 0, nil))
	_, err := d.Get([]byte("failed"))
	require.ErrorIs(t, err, ErrNotFound)
}

// The process is killed when the log with a record whose sync failed is not needed any more, but was not moved yet.
func TestAKillBeforeALogWithAFailedWriteIsKept(t *testing.T) {
	for _, logDir := range []string{"", "logs"} {
		fsys := newFailing()
		o := changesOptions(fsys)
		o.LogDir = logDir
		d := openTest(t, o)
		require.NoError(t, d.Put([]byte("a"), nil, Sync))
		fsys.fail(wrap.OpSync, ".log", syscall.ENOSPC)
		require.ErrorIs(t, d.Put([]byte("failed"), nil, Sync), ErrNoSpace)
		fsys.on(func(op wrap.Op) *wrap.Fault { // the log cannot be moved
			if op.Kind == wrap.OpRename && strings.Contains(op.NewName, "changes/") {
				return &wrap.Fault{}
			}
			return nil
		})
		require.NoError(t, d.Put([]byte("b"), nil, Sync))
		require.Equal(t, []string{"a", "b"}, keysOf(t, d, 0, nil))
		killed := fsys.mem.Kill()
		fsys.heal()
		require.NoError(t, d.Close())
		o.FS = killed
		d = openTest(t, o)
		require.Equal(t, "a=\nb=\n", contentOfIterator(t, d))
		require.Equal(t, []string{"a", "b"}, keysOf(t, d, 0, nil))
	}
}

// A load follows a write whose sync failed, in a log with nothing else.
func TestALoadAfterAWriteThatFailed(t *testing.T) {
	fsys := newFailing()
	d := openTest(t, changesOptions(fsys))
	require.NoError(t, d.Put([]byte("a"), nil, Sync))
	require.NoError(t, d.Flush())
	fsys.fail(wrap.OpSync, ".log", syscall.ENOSPC)
	require.ErrorIs(t, d.Put([]byte("failed"), nil, Sync), ErrNoSpace)
	fsys.heal()
	l, err := d.NewLoader()
	require.NoError(t, err)
	require.NoError(t, l.Put([]byte("loaded"), nil))
	require.NoError(t, l.Commit())
	killed := fsys.mem.Kill()
	require.NoError(t, d.Close())
	o := changesOptions(killed)
	o.ReadOnly = true
	d = openTest(t, o)
	require.Equal(t, []string{"a", "loaded"}, keysOf(t, d, 0, nil))
	require.NoError(t, d.Close())
	d = openTest(t, changesOptions(killed))
	require.Equal(t, "a=\nloaded=\n", contentOfIterator(t, d))
	require.Equal(t, []string{"a", "loaded"}, keysOf(t, d, 0, nil))
}

// A write without a sync becomes durable without another write. Readers that wait are woken.
func TestASyncWakesReaders(t *testing.T) {
	for name, sync := range map[string]func(*DB) error{"SyncLog": (*DB).SyncLog, "Flush": (*DB).Flush} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := mustOpen(t, changesOptions(vfs.NewMem()))
				done := make(chan error, 1)
				go func() { done <- d.WaitForChange(t.Context(), 0) }()
				synctest.Wait()
				require.NoError(t, d.Put([]byte("a"), nil, NoSync))
				synctest.Wait()
				require.Empty(t, done)
				require.NoError(t, sync(d))
				synctest.Wait()
				require.Len(t, done, 1)
				require.NoError(t, <-done)
				require.NoError(t, d.Close())
			})
		})
	}
}

// A write without a sync becomes durable by the flush that ends a full disk, and no other write follows. A reader that
// waits got nothing until the next one.
func TestTheEndOfAFullDiskWakesReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := newFailing()
		d := mustOpen(t, changesOptions(fsys))
		require.NoError(t, d.Put([]byte("a"), nil, NoSync))
		done := make(chan error, 1)
		go func() { done <- d.WaitForChange(t.Context(), 0) }()
		fsys.fail(wrap.OpSync, ".log", syscall.ENOSPC)
		require.ErrorIs(t, d.SyncLog(), ErrNoSpace)
		synctest.Wait()
		require.Empty(t, done)
		fsys.heal()
		require.NoError(t, d.SyncLog())
		synctest.Wait()
		require.Len(t, done, 1)
		require.NoError(t, <-done)
		require.NoError(t, d.Close())
	})
}

// Without the logs, a database that is not open for writing has a gap, not an end.
func TestAMissingPastIsNoEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := testOptions(vfs.NewMem())
		d := openTest(t, o)
		require.NoError(t, d.Put([]byte("a"), nil, Sync))
		require.NoError(t, d.Flush())
		synctest.Wait() // until the log is removed, which Flush does not wait for
		ro := *o
		ro.ReadOnly = true
		require.ErrorIs(t, firstError(mustFollow(t, &ro).Changes(background, 0, nil)), ErrChangesGone)
		require.NoError(t, d.Put([]byte("b"), nil, Sync))
		f := mustFollow(t, &ro)
		require.ErrorIs(t, firstError(f.Changes(background, 0, nil)), ErrChangesGone)
		require.Equal(t, []string{"b"}, keysOf(t, f, 1, nil))
		l, err := d.NewLoader()
		require.NoError(t, err)
		require.NoError(t, l.Put([]byte("loaded"), nil))
		require.NoError(t, l.Commit())
		var gone *ChangesGoneError
		require.ErrorAs(t, firstError(f.Changes(background, 2, nil)), &gone)
		last := f.finder.VisibleSeq.Load()
		require.Equal(t, last, gone.Oldest)
		require.Empty(t, keysOf(t, f, last, nil))
		require.NoError(t, d.Close())
		require.ErrorIs(t, firstError(openTest(t, &ro).Changes(background, 0, nil)), ErrChangesGone)
	})
}

// A follower of a database whose logs are elsewhere reads them there.
func TestAFollowerFindsTheLogsElsewhere(t *testing.T) {
	for _, keep := range []int64{0, 1 << 30} {
		o := testOptions(vfs.NewMem())
		o.LogDir, o.Changes.Bytes = "logs", keep
		d := openTest(t, o)
		putAll(t, d, "a", "1", "b", "2")
		f := mustFollow(t, o)
		require.Equal(t, []string{"a", "b"}, keysOf(t, f, 0, nil))
		require.NoError(t, d.Flush())
		putAll(t, d, "c", "3")
		require.Equal(t, []string{"c"}, keysOf(t, f, 2, nil))
		if keep > 0 {
			require.Equal(t, []string{"a", "b", "c"}, keysOf(t, f, 0, nil))
		}
	}
}
