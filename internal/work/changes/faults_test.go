package changes_test

import (
	"context"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/storetest"
	"github.com/sievedb/sievedb/vfs"
)

// keysOf returns the keys and deletions that the feed yields from a position.
func keysOf(t testing.TB, d *db.DB, since uint64, o *db.ChangeOptions) (keys []string) {
	t.Helper()
	for c, err := range d.Changes(context.Background(), since, o) {
		require.NoError(t, err)
		keys = append(keys, changedKeys(t, c)...)
	}
	return keys
}

func changedKeys(t testing.TB, c db.Change) (keys []string) {
	t.Helper()
	for e, err := range c.Entries() {
		require.NoError(t, err)
		switch e.Kind {
		case db.EntryPut:
			keys = append(keys, string(e.Key))
		case db.EntryDelete:
			keys = append(keys, "-"+string(e.Key))
		case db.EntryDeleteRange:
			keys = append(keys, string(e.Key)+".."+string(e.Value))
		}
	}
	return keys
}

// The sync of a record fails because the disk is full: the record is in the log, but was not made. A reader that
// waits there, and one that comes later, do not get it.
func TestTheFeedHasNoWriteThatFailed(t *testing.T) {
	fsys := fixture.NewFailing()
	d := storetest.Open(t, changesOptions(fsys))
	require.NoError(t, d.Put([]byte("a"), nil, db.Sync))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var keys []string
	for c, err := range d.Changes(ctx, 0, &db.ChangeOptions{Wait: true}) {
		require.NoError(t, err)
		keys = append(keys, changedKeys(t, c)...)
		if len(keys) > 1 {
			break
		}
		fsys.Fail(wrap.OpSync, ".log", syscall.ENOSPC)
		require.ErrorIs(t, d.Put([]byte("failed"), nil, db.Sync), db.ErrNoSpace)
		fsys.Heal()
		require.NoError(t, d.Put([]byte("b"), nil, db.Sync))
	}
	require.Equal(t, []string{"a", "b"}, keys)
	require.Equal(t, keys, keysOf(t, d, 0, nil))
	require.NoError(t, d.Flush())
	require.Equal(t, keys, keysOf(t, d, 0, nil))
	require.NoError(t, d.Close())
	d = storetest.Open(t, changesOptions(fsys))
	require.Equal(t, keys, keysOf(t, d, 0, nil))
	_, err := d.Get([]byte("failed"))
	require.ErrorIs(t, err, db.ErrNotFound)
}

// The process is killed when the log with a record whose sync failed is not needed any more, but was not moved yet.
func TestAKillBeforeALogWithAFailedWriteIsKept(t *testing.T) {
	for _, logDir := range []string{"", "logs"} {
		fsys := fixture.NewFailing()
		o := changesOptions(fsys)
		o.LogDir = logDir
		d := storetest.Open(t, o)
		require.NoError(t, d.Put([]byte("a"), nil, db.Sync))
		fsys.Fail(wrap.OpSync, ".log", syscall.ENOSPC)
		require.ErrorIs(t, d.Put([]byte("failed"), nil, db.Sync), db.ErrNoSpace)
		fsys.On(func(op wrap.Op) *wrap.Fault { // the log cannot be moved
			if op.Kind == wrap.OpRename && strings.Contains(op.NewName, "changes/") {
				return &wrap.Fault{}
			}
			return nil
		})
		require.NoError(t, d.Put([]byte("b"), nil, db.Sync))
		require.Equal(t, []string{"a", "b"}, keysOf(t, d, 0, nil))
		killed := fsys.Mem.Kill()
		fsys.Heal()
		require.NoError(t, d.Close())
		o.FS = killed
		d = storetest.Open(t, o)
		require.Equal(t, fixture.Contents{"a": "", "b": ""}, storetest.Contents(t, d))
		require.Equal(t, []string{"a", "b"}, keysOf(t, d, 0, nil))
	}
}

// A load follows a write whose sync failed, in a log with nothing else.
func TestALoadAfterAWriteThatFailed(t *testing.T) {
	fsys := fixture.NewFailing()
	d := storetest.Open(t, changesOptions(fsys))
	require.NoError(t, d.Put([]byte("a"), nil, db.Sync))
	require.NoError(t, d.Flush())
	fsys.Fail(wrap.OpSync, ".log", syscall.ENOSPC)
	require.ErrorIs(t, d.Put([]byte("failed"), nil, db.Sync), db.ErrNoSpace)
	fsys.Heal()
	l := storetest.NewLoader(t, d)
	require.NoError(t, l.Put([]byte("loaded"), nil))
	require.NoError(t, l.Commit())
	killed := fsys.Mem.Kill()
	require.NoError(t, d.Close())
	o := changesOptions(killed)
	o.ReadOnly = true
	d = storetest.Open(t, o)
	require.Equal(t, []string{"a", "loaded"}, keysOf(t, d, 0, nil))
	require.NoError(t, d.Close())
	d = storetest.Open(t, changesOptions(killed))
	require.Equal(t, fixture.Contents{"a": "", "loaded": ""}, storetest.Contents(t, d))
	require.Equal(t, []string{"a", "loaded"}, keysOf(t, d, 0, nil))
}

// A write without a sync becomes durable without another write. Readers that wait are woken.
func TestASyncWakesReaders(t *testing.T) {
	for name, sync := range map[string]func(*db.DB) error{"SyncLog": (*db.DB).SyncLog, "Flush": (*db.DB).Flush} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := storetest.MustOpen(t, changesOptions(vfs.NewMem()))
				done := make(chan error, 1)
				go func() { done <- d.WaitForChange(t.Context(), 0) }()
				synctest.Wait()
				require.NoError(t, d.Put([]byte("a"), nil, db.NoSync))
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
		fsys := fixture.NewFailing()
		d := storetest.MustOpen(t, changesOptions(fsys))
		require.NoError(t, d.Put([]byte("a"), nil, db.NoSync))
		done := make(chan error, 1)
		go func() { done <- d.WaitForChange(t.Context(), 0) }()
		fsys.Fail(wrap.OpSync, ".log", syscall.ENOSPC)
		require.ErrorIs(t, d.SyncLog(), db.ErrNoSpace)
		synctest.Wait()
		require.Empty(t, done)
		fsys.Heal()
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
		o := storetest.Options(vfs.NewMem())
		d := storetest.Open(t, o)
		require.NoError(t, d.Put([]byte("a"), nil, db.Sync))
		require.NoError(t, d.Flush())
		synctest.Wait() // until the log is removed, which Flush does not wait for
		ro := *o
		ro.ReadOnly = true
		require.ErrorIs(t, fixture.FirstError(storetest.MustFollow(t, &ro).Changes(context.Background(), 0, nil)), db.ErrChangesGone)
		require.NoError(t, d.Put([]byte("b"), nil, db.Sync))
		f := storetest.MustFollow(t, &ro)
		require.ErrorIs(t, fixture.FirstError(f.Changes(context.Background(), 0, nil)), db.ErrChangesGone)
		require.Equal(t, []string{"b"}, keysOf(t, f, 1, nil))
		l := storetest.NewLoader(t, d)
		require.NoError(t, l.Put([]byte("loaded"), nil))
		require.NoError(t, l.Commit())
		var gone *db.ChangesGoneError
		require.ErrorAs(t, fixture.FirstError(f.Changes(context.Background(), 2, nil)), &gone)
		last := f.Metrics().LastSequence
		require.Equal(t, last, gone.Oldest)
		require.Empty(t, keysOf(t, f, last, nil))
		require.NoError(t, d.Close())
		require.ErrorIs(t, fixture.FirstError(storetest.Open(t, &ro).Changes(context.Background(), 0, nil)), db.ErrChangesGone)
	})
}

// A follower of a database whose logs are elsewhere reads them there.
func TestAFollowerFindsTheLogsElsewhere(t *testing.T) {
	for _, keep := range []int64{0, 1 << 30} {
		o := storetest.Options(vfs.NewMem())
		o.LogDir, o.Changes.Bytes = "logs", keep
		d := storetest.Open(t, o)
		storetest.PutAll(t, d, "a", "1", "b", "2")
		f := storetest.MustFollow(t, o)
		require.Equal(t, []string{"a", "b"}, keysOf(t, f, 0, nil))
		require.NoError(t, d.Flush())
		storetest.PutAll(t, d, "c", "3")
		require.Equal(t, []string{"c"}, keysOf(t, f, 2, nil))
		if keep > 0 {
			require.Equal(t, []string{"a", "b", "c"}, keysOf(t, f, 0, nil))
		}
	}
}
