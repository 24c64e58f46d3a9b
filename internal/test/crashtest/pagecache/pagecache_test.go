package pagecache

import (
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/vfstest"
	"github.com/sievedb/sievedb/vfs"
)

func TestConformanceWithoutFailures(t *testing.T) {
	vfstest.Run(t, func(t *testing.T) (vfs.FS, string) {
		c := New(Clean, func(int, wrap.Op) error { return nil })
		require.NoError(t, c.MkdirAll("dir"))
		return c, "dir"
	})
}

func read(t *testing.T, fsys vfs.FS) string {
	f, err := fsys.Open("log")
	require.NoError(t, err)
	size, err := f.Size()
	require.NoError(t, err)
	b := make([]byte, size)
	_, err = f.ReadAt(b, 0)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	return string(b)
}

// "one" is synced, the sync of "two" fails, and the sync of "three" succeeds, as in a store that retries.
func TestPagesAfterAFailedSync(t *testing.T) {
	cases := map[Model]struct{ cached, disk, cachedLater, diskLater string }{
		Clean:    {"onetwo", "one", "onetwothree", "one\x00\x00\x00three"},
		Journal:  {"onetwo", "onetwo", "onetwothree", "onetwothree"},
		Reverted: {"one", "one", "onethree", "one"},
	}
	for model, want := range cases {
		t.Run(model.String()+" log", func(t *testing.T) {
			c := New(model, func(n int, _ wrap.Op) error {
				if n == 2 {
					return errors.New("injected")
				}
				return nil
			})
			f, err := c.CreateLog("log")
			require.NoError(t, err)
			shown := func(fsys vfs.FS) string { return strings.TrimRight(read(t, fsys), "\x00") }
			_, _ = f.Write([]byte("one"))
			require.NoError(t, f.Sync())
			require.NoError(t, c.SyncDir("."))
			_, _ = f.Write([]byte("two"))
			require.Error(t, f.Sync())
			require.Equal(t, want.cached, shown(c))
			require.Equal(t, want.disk, shown(c.Crash()))
			require.Len(t, read(t, c.Crash()), 64<<10)
			_, _ = f.Write([]byte("three"))
			require.NoError(t, f.(vfs.LogFile).Cut())
			require.NoError(t, f.Sync(), "its success proves nothing")
			require.Equal(t, want.cachedLater, read(t, c))
			if model != Reverted { // the name of the file made anew is not durable
				require.Equal(t, want.diskLater, read(t, c.Crash()))
			}
			require.NoError(t, f.Close())
		})
		t.Run(model.String(), func(t *testing.T) {
			cause := errors.New("injected")
			c := New(model, func(n int, _ wrap.Op) error {
				if n == 2 {
					return cause
				}
				return nil
			})
			f, err := c.Create("log")
			require.NoError(t, err)
			_, _ = f.Write([]byte("one"))
			require.NoError(t, f.Sync())
			require.NoError(t, c.SyncDir("."))
			_, _ = f.Write([]byte("two"))
			require.ErrorIs(t, f.Sync(), cause)
			require.Equal(t, want.cached, read(t, c))
			require.Equal(t, want.disk, read(t, c.Crash()))
			_, _ = f.Write([]byte("three"))
			require.NoError(t, f.Sync(), "its success proves nothing")
			require.Equal(t, want.cachedLater, read(t, c))
			require.Equal(t, want.diskLater, read(t, c.Crash()))
			require.Equal(t, 4, c.Syncs())
		})
	}
}

// The bug: another goroutine's SyncDir made the name durable as missing while the file was made anew.
func TestNoDirectoryIsSyncedWhileAFileIsMadeAnew(t *testing.T) {
	c := New(Reverted, func(_ int, op wrap.Op) error {
		if op.Kind == wrap.OpSync {
			return errors.New("injected")
		}
		return nil
	})
	f, err := c.Create("log")
	require.NoError(t, err)
	require.NoError(t, c.SyncDir("."))
	synced := make(chan error, 1)
	f.(*file).create = func(name string) (vfs.File, error) {
		go func() { synced <- c.SyncDir(".") }()
		for range 1000 {
			runtime.Gosched()
		}
		require.Empty(t, synced)
		return c.mem.Create(name)
	}
	require.ErrorContains(t, f.Sync(), "injected")
	require.NoError(t, <-synced)
	_, err = c.Crash().Stat("log")
	require.NoError(t, err)
	require.NoError(t, f.Close())
}
