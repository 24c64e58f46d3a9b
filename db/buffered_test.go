package db_test

import (
	"context"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/vfs"
)

// survivors opens the files that would remain if the process of running were killed now. It returns
// how many of the keys 0 to n-1 are in them, and requires that these are the first ones.
func survivors(t *testing.T, running *db.DB, fsys vfs.FS, n int) int {
	t.Helper()
	waitUntilIdle(running)
	d := mustOpen(t, testOptions(copyFS(t, fsys)))
	defer func() { require.NoError(t, d.Close()) }()
	survived := 0
	for i := range n {
		has, err := d.Has(testKey(i))
		require.NoError(t, err)
		if has {
			require.Equal(t, survived, i, "an earlier key is missing")
			requireValue(t, d, testKey(i), testValue(i))
			survived++
		}
	}
	return survived
}

func putBuffered(t *testing.T, d *db.DB, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		require.NoError(t, d.Put(testKey(i), testValue(i), db.Buffered))
	}
}

func TestBufferedWritesAreHandedOver(t *testing.T) {
	const n = 50
	for _, c := range []struct {
		name string
		do   func(d *db.DB) error
	}{
		{"by a write that is not buffered", func(d *db.DB) error { return d.Put([]byte("last"), nil, db.NoSync) }},
		{"by a write that is synced", func(d *db.DB) error { return d.Put([]byte("last"), nil, db.Sync) }},
		{"by a deletion", func(d *db.DB) error { return d.Delete([]byte("last"), db.NoSync) }},
		{"by Flush", (*db.DB).Flush},
		{"by a compaction of all", func(d *db.DB) error { return d.Compact(context.Background(), nil, nil) }},
		{"by Close", (*db.DB).Close},
		{"by more of them than the buffer holds", func(d *db.DB) error { return d.Put([]byte("last"), make([]byte, 64<<10), db.Buffered) }},
		{"after a while", func(*db.DB) error { return nil }},
	} {
		t.Run(c.name, func(t *testing.T) {
			mem := vfs.NewMem()
			d := openTest(t, testOptions(mem))
			putBuffered(t, d, 0, n)
			for i := range n {
				requireValue(t, d, testKey(i), testValue(i))
			}
			require.LessOrEqual(t, survivors(t, d, mem, n), n)
			require.NoError(t, c.do(d))
			if c.name == "after a while" {
				eventually(t, func() bool { return survivors(t, d, mem, n) == n })
			}
			require.Equal(t, n, survivors(t, d, mem, n))
		})
	}
}

// In a bubble, no time passes during the writes, so only a full buffer is written.
func TestBufferedWritesShareSystemCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 2000
		fsys := wrap.NewCounting(fixture.PlainLogs(vfs.NewMem()))
		o := testOptions(fsys)
		o.Memtables.Size = 4 << 20
		d := openTest(t, o)
		before := fsys.Snapshot().Total.Writes
		putBuffered(t, d, 0, n)
		require.Less(t, fsys.Snapshot().Total.Writes-before, uint64(20))
	})
}

// A hand-over runs in the background, so it has no caller to return an error to. A full disk loses nothing, and writes
// continue.
func TestAHandOverToAFullDiskIsReported(t *testing.T) {
	fs := fixture.NewFailingPlain() // otherwise the Put reports it
	o := testOptions(fs)
	reported := make(chan error, 1)
	o.EventListener = &db.EventListener{BackgroundError: func(err error) {
		select {
		case reported <- err:
		default: // one is enough
		}
	}}
	d := openTest(t, o)
	fs.Fail(wrap.OpWrite, ".log", syscall.ENOSPC)
	require.NoError(t, d.Put(testKey(0), testValue(0), db.Buffered))
	require.ErrorIs(t, <-reported, syscall.ENOSPC)
	fs.Heal()
	require.NoError(t, d.Put(testKey(1), testValue(1), db.Buffered))
	requireValue(t, d, testKey(0), testValue(0))
	require.NoError(t, d.Put(testKey(2), testValue(2), db.NoSync))
	require.Equal(t, 3, survivors(t, d, fs.Mem, 3))
}

// A failure loses what is in the buffer, and a history that has acknowledged it would have a hole.
func TestBufferedWritesOfAKeptHistoryAreHandedOverAtOnce(t *testing.T) {
	for _, fs := range []*fixture.Failing{fixture.NewFailing(), fixture.NewFailingPlain()} {
		d := openTest(t, keepingChanges(fs))
		require.NoError(t, d.Put(testKey(0), testValue(0), db.Buffered))
		fs.Fail(wrap.OpWrite, ".log", syscall.ENOSPC)
		require.ErrorIs(t, d.Put(testKey(1), testValue(1), db.Buffered), db.ErrNoSpace)
		fs.Heal()
		require.NoError(t, d.Flush())
		require.NoError(t, d.Put(testKey(2), testValue(2), db.Sync))
		n := 0
		for _, err := range d.Changes(t.Context(), 0, nil) {
			require.NoError(t, err)
			if n++; n == 2 {
				break
			}
		}
		require.Equal(t, 2, n)
	}
}
