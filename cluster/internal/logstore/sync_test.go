package logstore

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/vfs"
)

// slowDisk is a disk whose syncs wait while it is held, and fail if it is broken.
type slowDisk struct {
	held   sync.RWMutex
	broken atomic.Bool
}

func (d *slowDisk) over(fsys vfs.FS) vfs.FS {
	return wrap.NewFaulty(fsys, wrap.FailIf(nil, func(op wrap.Op) bool {
		if op.Kind != wrap.OpSync {
			return false
		}
		d.held.RLock()
		defer d.held.RUnlock()
		return d.broken.Load()
	}))
}

func termOf(t *testing.T, g *Group, index uint64) uint64 {
	t.Helper()
	var l raft.Log
	require.NoError(t, g.GetLog(index, &l))
	return l.Term
}

func TestEntriesStoredSoonBecomeDurable(t *testing.T) {
	mem := vfs.NewMem()
	s := open(t, mem)
	g, other := s.Group(1), s.Group(2)
	require.NoError(t, g.StoreLogs(entries(1, 5, 1)))
	require.EqualValues(t, 5, g.Durable())
	for i := uint64(6); i < 60; i += 3 {
		require.NoError(t, g.StoreLogsSoon(entries(i, i+2, 1)))
		require.NoError(t, other.StoreLogsSoon(entries(i, i+2, 1)))
		require.NoError(t, g.WaitDurable(t.Context(), i+2))
		require.NoError(t, other.WaitDurable(t.Context(), i+1))
		require.EqualValues(t, i+2, g.Durable())
		after := open(t, mem.Crash())
		requireRange(t, after.Group(1), 1, i+2)
		requireRange(t, after.Group(2), 6, i+2)
		require.EqualValues(t, i+2, after.Group(1).Durable())
		require.NoError(t, after.Close())
	}
}

func TestNothingIsDurableBeforeItsSync(t *testing.T) {
	mem, disk := vfs.NewMem(), &slowDisk{}
	s := open(t, disk.over(mem))
	g := s.Group(1)
	require.NoError(t, g.StoreLogs(entries(1, 5, 1)))
	disk.held.Lock()
	require.NoError(t, g.StoreLogsSoon(entries(6, 10, 1)))
	requireRange(t, g, 1, 10)
	require.EqualValues(t, 5, g.Durable())
	require.NoError(t, g.WaitDurable(t.Context(), 5))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, g.WaitDurable(ctx, 6), context.Canceled)
	after := open(t, mem.Crash())
	requireRange(t, after.Group(1), 1, 5)
	require.NoError(t, after.Close())

	disk.held.Unlock()
	require.NoError(t, g.DeleteRange(8, 10))
	require.NoError(t, g.StoreLogsSoon(entries(8, 9, 2)))
	require.NoError(t, g.WaitDurable(t.Context(), 9))
	require.EqualValues(t, 9, g.Durable())
	after = open(t, mem.Crash())
	requireRange(t, after.Group(1), 1, 9)
	require.EqualValues(t, 2, termOf(t, after.Group(1), 8))
	require.NoError(t, after.Close())

	// Entries that are gone need not be waited for.
	require.NoError(t, g.StoreLogsSoon(entries(10, 12, 2)))
	require.NoError(t, g.DeleteRange(1, 12))
	require.NoError(t, g.WaitDurable(t.Context(), 12))
	require.NoError(t, g.StoreLogsSoon(entries(20, 21, 3)))
	require.NoError(t, g.WaitDurable(t.Context(), 21))
}

func TestAFailedSyncMakesNothingDurable(t *testing.T) {
	disk := &slowDisk{}
	failed := make(chan error, 2)
	s, err := Open("logs", Options{FS: disk.over(vfs.NewMem()), Failed: func(err error) { failed <- err }})
	require.NoError(t, err)
	g := s.Group(1)
	require.NoError(t, g.StoreLogs(entries(1, 5, 1)))
	disk.broken.Store(true)
	require.NoError(t, g.StoreLogsSoon(entries(6, 7, 1)))
	require.ErrorIs(t, g.WaitDurable(t.Context(), 7), wrap.ErrInjected)
	require.ErrorIs(t, <-failed, wrap.ErrInjected)
	require.EqualValues(t, 5, g.Durable())
	require.Error(t, g.StoreLogsSoon(entries(8, 8, 1)))
	_ = s.Close()
	require.Empty(t, failed)
}

// The writer writes for all groups at once, so what the database refuses must not reach it: it would fail the store.
func TestAnEntryThatIsTooLargeIsRefusedAndChangesNothing(t *testing.T) {
	s := open(t, vfs.NewMem())
	g := s.Group(1)
	require.NoError(t, g.StoreLogs(entries(1, 5, 1)))
	large := []*raft.Log{{Index: 6, Term: 1, Data: make([]byte, db.MaxValueSize)}}
	require.ErrorIs(t, g.StoreLogsSoon(large), db.ErrTooLarge)
	require.ErrorIs(t, g.StoreLogs(large), db.ErrTooLarge)
	requireRange(t, g, 1, 5)
	require.NoError(t, g.StoreLogsSoon(entries(6, 7, 1)))
	require.NoError(t, g.WaitDurable(t.Context(), 7))
	require.NoError(t, s.Err())
}
