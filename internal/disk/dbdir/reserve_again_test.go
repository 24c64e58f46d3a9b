package dbdir_test

import (
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/disk/dbdir"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/storetest"
	"github.com/sievedb/sievedb/vfs"
)

// The bug: a DeleteRange used the reserve and failed all the same. The user made room, the next DeleteRange succeeded
// without a reserve, and none was made again before the next Open.
func TestTheReserveIsMadeAgainAfterALaterDeleteRange(t *testing.T) {
	var full atomic.Bool
	mem := vfs.NewMem()
	o := storetest.Options(wrap.NewFaulty(mem, wrap.FailIf(syscall.ENOSPC, func(op wrap.Op) bool {
		return full.Load() && op.Kind == wrap.OpWrite
	})))
	o.Limits.DiskReserve = 1000
	d := storetest.Open(t, o)
	there := func() bool {
		_, err := mem.Stat(d.Dir() + "/" + dbdir.ReserveName)
		return err == nil
	}
	require.NoError(t, d.Put(fixture.Key(1), fixture.Value(1), nil))
	require.NoError(t, d.Flush())
	require.True(t, there())
	full.Store(true)
	require.ErrorIs(t, d.DeleteRange(t.Context(), nil, nil, nil), db.ErrNoSpace)
	require.False(t, there())
	full.Store(false)
	require.NoError(t, d.DeleteRange(t.Context(), nil, nil, nil))
	require.NoError(t, d.Put(fixture.Key(2), fixture.Value(2), nil))
	require.NoError(t, d.Flush())
	fixture.Eventually(t, there) // in the background
}
